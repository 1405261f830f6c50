// How fast bulk tensor copies follow each other on Hopper, by their number, rows and bytes of a row; one CTA, all in L2:
//
//     nvcc -gencode arch=compute_90a,code=sm_90a -O3 -cudart static -o boxes benchmarks/micro/boxes.cu && ./boxes
//
// A thread issues the copies of an iteration into one of several slots, another warp waits for them and gives the slot back.
// Cycles of an iteration. Results of an H200 are in results/boxes.txt.
#include <cstdint>
#include <cstdio>
#include <cuda.h>
#include <cuda_runtime.h>

struct Work { int first, second, bytes_first, bytes_second, slots, trips, wrap, along_first, along_second, moves_first, moves_second; };

__device__ void wait(uint32_t bar, uint32_t phase) {
  asm volatile("{.reg .pred p; L%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra L%=;}"::"r"(bar),"r"(phase):"memory");
}
__device__ void copy(uint32_t to, const CUtensorMap* map, int x, int y, uint32_t bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
    ::"r"(to),"l"(map),"r"(x),"r"(y),"r"(bar):"memory");
}
// FIRST copies by map `a` and SECOND ones by map `b`, which lie `along` elements apart along x, in each iteration; they begin again after `wrap` of these.
template<int FIRST, int SECOND> __global__ void __launch_bounds__(64) run(
    const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, Work w, long long* out) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(8) unsigned long long bars[64];
  uint32_t full=(uint32_t)__cvta_generic_to_shared(bars), empty=full+256, at=((uint32_t)__cvta_generic_to_shared(memory)+1023)&~1023;
  if (threadIdx.x<w.slots) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;"::"r"(full+8*threadIdx.x));
    asm volatile("mbarrier.init.shared.b64 [%0], 1;"::"r"(empty+8*threadIdx.x));
  }
  asm volatile("fence.mbarrier_init.release.cluster;");
  __syncthreads();
  int slot=0, phase=0, bytes=FIRST*w.bytes_first+SECOND*w.bytes_second;
  if (threadIdx.x==0) {
    long long t=0;
    int xa=0, xb=0, ya=0, yb=0, left=w.wrap;
    for (int n=0;n<w.trips;n++) {
      if (n==w.trips/4) t=clock64();
      wait(empty+8*slot,phase^1);
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"::"r"(full+8*slot),"r"(bytes):"memory");
      uint32_t to=at+slot*bytes;
      #pragma unroll
      for (int i=0;i<FIRST;i++) copy(to+i*w.bytes_first,&a,xa+i*w.along_first,ya,full+8*slot);
      #pragma unroll
      for (int i=0;i<SECOND;i++) copy(to+FIRST*w.bytes_first+i*w.bytes_second,&b,xb+i*w.along_second,yb,full+8*slot);
      xa+=FIRST*w.along_first; xb+=SECOND*w.along_second; ya+=w.moves_first; yb+=w.moves_second;
      if (--left==0) { left=w.wrap; xa=xb=ya=yb=0; }
      if (++slot==w.slots) { slot=0; phase^=1; }
    }
    out[0]=clock64()-t;
  } else if (threadIdx.x==32) {
    for (int n=0;n<w.trips;n++) {
      wait(full+8*slot,phase);
      asm volatile("mbarrier.arrive.shared.b64 _, [%0];"::"r"(empty+8*slot):"memory");
      if (++slot==w.slots) { slot=0; phase^=1; }
    }
  }
}

typedef CUresult (*Encode)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
  const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
Encode encode; char* data; long long* out;

// A matrix of 16-bit numbers, `columns` of them in a row, in boxes of `rows` rows and `bytes` bytes of each.
CUtensorMap map(long columns, long height, int rows, int bytes) {
  CUtensorMap m; cuuint64_t dims[2]={(cuuint64_t)columns,(cuuint64_t)height}, stride[1]={(cuuint64_t)columns*2};
  cuuint32_t box[2]={(cuuint32_t)bytes/2,(cuuint32_t)rows}, steps[2]={1,1};
  CUresult r=encode(&m,CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,2,data,dims,stride,box,steps,CU_TENSOR_MAP_INTERLEAVE_NONE,
    bytes==128?CU_TENSOR_MAP_SWIZZLE_128B:bytes==64?CU_TENSOR_MAP_SWIZZLE_64B:CU_TENSOR_MAP_SWIZZLE_32B,CU_TENSOR_MAP_L2_PROMOTION_L2_128B,CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (r) printf("map: error %d\n",(int)r);
  return m;
}
struct Side { int rows, bytes; long columns; bool along_rows; };
// A side's copies go along its rows (operands whose rows lie along k), or down its columns.
template<int FIRST, int SECOND> void timed(const char* name, Side a, Side b, int slots, int wrap=32) {
  Work w={FIRST,SECOND,a.rows*a.bytes,b.rows*b.bytes,slots,4096,0,0,0,0,0};
  w.wrap=wrap;
  if (a.along_rows) w.along_first=a.bytes/2; else w.moves_first=a.rows*FIRST;
  if (b.along_rows) w.along_second=b.bytes/2; else w.moves_second=b.rows*SECOND;
  CUtensorMap ma=map(a.columns,1<<16,a.rows,a.bytes), mb=map(b.columns,1<<16,b.rows,b.bytes);
  int shared=slots*(FIRST*w.bytes_first+SECOND*w.bytes_second)+1024;
  cudaFuncSetAttribute(run<FIRST,SECOND>,cudaFuncAttributeMaxDynamicSharedMemorySize,shared);
  double best=1e30;
  for (int r=0;r<4;r++) {
    run<FIRST,SECOND><<<1,64,shared>>>(ma,mb,w,out); long long h; cudaMemcpy(&h,out,8,cudaMemcpyDeviceToHost);
    double c=double(h)/(w.trips-w.trips/4); if (c<best) best=c;
  }
  printf("%-58s %d of %3d x %3d B, %d of %3d x %3d B, %2d slots, %3d turns: %7.1f cycles (%s)\n",name,FIRST,a.rows,a.bytes,SECOND,b.rows,b.bytes,slots,wrap,best,cudaGetErrorString(cudaGetLastError()));
}
int main() {
  cudaFree(0); cudaDriverEntryPointQueryResult q; void* p=0;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled",&p,12000,cudaEnableDefault,&q); encode=(Encode)p;
  cudaMalloc(&data,1l<<33); cudaMemset(data,0,1l<<28); cudaMalloc(&out,64);
  const Side k64={64,128,4096,true}, k32={32,128,4096,true}, k16={16,128,4096,true}, k8={8,128,4096,true};
  timed<2,2>("64 x 64 x 128, rows along k",k64,k64,6);
  timed<2,1>("64 x 64 x 128, B along n, 64 columns in all",k64,{128,128,64,false},6);
  timed<2,1>("64 x 64 x 128, B along n, 4096 columns in all",k64,{128,128,4096,false},6);
  timed<2,2>("the same, two boxes of 64 rows",k64,{64,128,64,false},6);
  timed<4,4>("64 x 32 x 256, rows along k",k64,k32,4);
  timed<4,1>("64 x 32 x 256, B along n, 32 columns in all",k64,{256,64,32,false},4);
  timed<4,1>("64 x 32 x 256, B along n, 4096 columns in all",k64,{256,64,4096,false},4);
  timed<4,4>("the same, four boxes of 64 rows",k64,{64,64,4096,false},4);
  timed<2,2>("64 x 16 x 128",k64,k16,8); timed<2,2>("64 x 8 x 128",k64,k8,8);
  timed<1,1>("64 x 8 x 64",k64,k8,10); timed<1,1>("64 x 64 x 64",k64,k64,8);
  timed<4,2>("gated 64 x 64 x 64 twice",k64,k64,4); timed<2,4>("gated 64 x 32 x 128",k64,k32,5);
  timed<1,0>("one copy",{256,128,4096,true},k8,4); timed<1,0>("one copy",{128,128,4096,true},k8,8); timed<1,0>("one copy",k64,k8,12);
  timed<1,0>("one copy",k32,k8,12); timed<1,0>("one copy",k16,k8,12); timed<1,0>("one copy",k8,k8,12);
  timed<2,0>("two copies",{128,128,4096,true},k8,6); timed<2,0>("two copies",k64,k8,12); timed<2,0>("two copies",k16,k8,12); timed<2,0>("two copies",k8,k8,12);
  timed<4,0>("four copies",k64,k8,6); timed<4,0>("four copies",k32,k8,12); timed<4,0>("four copies",k16,k8,12); timed<4,0>("four copies",k8,k8,12);
  timed<8,0>("eight copies",k32,k8,6); timed<8,0>("eight copies",k8,k8,12);
  timed<1,0>("one copy down",{128,128,4096,false},k8,8); timed<1,0>("one copy down, 64 columns in all",{128,128,64,false},k8,8);
  timed<1,0>("one copy down",{256,128,4096,false},k8,4); timed<1,0>("one copy down, 64 B",{256,64,4096,false},k8,8);
  timed<1,0>("one copy along, 64 B",{256,64,4096,true},k8,8); timed<1,0>("one copy along, 64 B",{64,64,4096,true},k8,12);
  timed<1,0>("one copy along, 32 B",{256,32,4096,true},k8,8);
  // The same with more in L2 than a few hundred KiB: 16 MiB and more, all of it there since the run before.
  const Side w64={64,128,65536,true}, w32={32,128,65536,true}, w16={16,128,65536,true}, w8={8,128,65536,true};
  for (int wrap: {32,128,512}) {
    timed<2,2>("64 x 64 x 128, rows along k",w64,w64,6,wrap);
    timed<2,1>("64 x 64 x 128, B along n, 64 columns in all",w64,{128,128,64,false},6,wrap);
    timed<2,1>("64 x 64 x 128, B along n, 4096 columns in all",w64,{128,128,1024,false},6,wrap);
    timed<2,0>("A of that alone",w64,w64,6,wrap); timed<1,0>("B of that along n alone",{128,128,64,false},w8,6,wrap);
    timed<2,2>("64 x 16 x 128",w64,w16,8,wrap); timed<1,1>("64 x 64 x 64",w64,w64,8,wrap);
  }
  for (int wrap: {32,128,256}) {
    timed<4,4>("64 x 32 x 256, rows along k",w64,w32,4,wrap); timed<4,1>("64 x 32 x 256, B along n, 32 columns in all",w64,{256,64,32,false},4,wrap);
    timed<4,0>("A of that alone",w64,w32,4,wrap); timed<0,4>("B of that alone",w64,w32,4,wrap); timed<0,1>("B of that along n alone",w64,{256,64,32,false},4,wrap);
    timed<4,4>("64 x 8 x 256",w64,w8,5,wrap);
  }
  for (int s: {2,3,4,6,8,12}) timed<2,2>("slots",w16,w16,s,512);
  for (int s: {2,3,4,6,8,12}) timed<1,0>("slots",{128,128,65536,true},w8,s,512);
  for (int s: {2,3,4,6,8,12}) timed<1,0>("slots",{128,128,4096,true},k8,s);
}
