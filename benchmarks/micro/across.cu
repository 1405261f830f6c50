// Bulk copies to shared memory beside products on Hopper that read rows of B along k, or across (B along n): cycles for each 32 KiB
// that arrive and what share of their rate products keep, each alone and both together; they share nothing but the SM:
//
//     nvcc -gencode arch=compute_90a,code=sm_90a -O3 -cudart static -o across benchmarks/micro/across.cu && ./across
//
// Results of an H200 are in results/across.txt.
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

#define D8(i) "+f"(d[i]),"+f"(d[i+1]),"+f"(d[i+2]),"+f"(d[i+3]),"+f"(d[i+4]),"+f"(d[i+5]),"+f"(d[i+6]),"+f"(d[i+7])
#define D32(i) D8(i),D8(i+8),D8(i+16),D8(i+24)
#define R16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define R32 R16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define R64 R32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define COPIES 512

// C columns; ACROSS: rows of B along n.
template<int C,int ACROSS> __device__ void multiply(float* d, uint64_t a, uint64_t b) {
  asm volatile("wgmma.fence.sync.aligned;");
  #pragma unroll
  for (int s=0;s<24;s++) {
    uint64_t x=a+2*(s&3), y=b+(ACROSS?128*(s&7):2*(s&3));
    if (C==32&&ACROSS) asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" R16 "},%16,%17,1,1,1,0,1;":D8(0),D8(8):"l"(x),"l"(y));
    if (C==32&&!ACROSS) asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" R16 "},%16,%17,1,1,1,0,0;":D8(0),D8(8):"l"(x),"l"(y));
    if (C==64&&ACROSS) asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" R32 "},%32,%33,1,1,1,0,1;":D32(0):"l"(x),"l"(y));
    if (C==64&&!ACROSS) asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" R32 "},%32,%33,1,1,1,0,0;":D32(0):"l"(x),"l"(y));
    if (C==128&&ACROSS) asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" R64 "},%64,%65,1,1,1,0,1;":D32(0),D32(32):"l"(x),"l"(y));
    if (C==128&&!ACROSS) asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" R64 "},%64,%65,1,1,1,0,0;":D32(0),D32(32):"l"(x),"l"(y));
  }
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
}
__device__ void wait(uint32_t bar, uint32_t phase) {
  asm volatile("{.reg .pred p; L%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra L%=;}"::"r"(bar),"r"(phase):"memory");
}
template<int C,int ACROSS> __global__ void __launch_bounds__(256,1) both(long long* out, float* sink, const char* from, int copies, int products) {
  extern __shared__ __align__(1024) char sm[];
  __shared__ __align__(8) unsigned long long bars[4];
  __shared__ volatile int over;
  uint32_t start=(uint32_t)__cvta_generic_to_shared(sm), bar=(uint32_t)__cvta_generic_to_shared(bars);
  if (threadIdx.x==0) { over=!copies; for (int i=0;i<4;i++) asm volatile("mbarrier.init.shared.b64 [%0], 1;"::"r"(bar+8*i)); }
  __syncthreads();
  if (threadIdx.x<128) {
    if (!products) return;
    float d[64]; for (int i=0;i<64;i++) d[i]=0;
    uint64_t desc=((uint64_t)((start>>4)&0x3fff))|(1ull<<16)|(64ull<<32)|(1ull<<62), b=desc+(16384>>4);
    if (ACROSS&&C==128) b=(b&~(0x3fffull<<16))|(1024ull<<16);  // its other 64 columns lie 16 KiB behind
    long long t=clock64(); int turns=0;
    while (copies ? !over : turns<200) { multiply<C,ACROSS>(d,desc,b); turns++; }
    t=clock64()-t;
    float s=0; for (int i=0;i<64;i++) s+=d[i]; sink[threadIdx.x]=s;
    if (threadIdx.x==0) { out[1]=t; out[2]=turns; }
  } else if (threadIdx.x==128&&copies) {
    // Four slots of 32 KiB behind the operands, each in two copies of 16.
    long long t=0;
    for (int i=0;i<COPIES;i++) {
      uint32_t at=bar+8*(i&3), to=start+65536+32768*(i&3);
      if (i>=4) wait(at,(i/4-1)&1);
      if (i==16) t=clock64();
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"::"r"(at),"r"(32768));
      for (int h=0;h<2;h++)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"::"r"(to+16384*h),"l"(from+32768*(i&7)+16384*h),"r"(16384),"r"(at):"memory");
    }
    t=clock64()-t;
    for (int i=COPIES-4;i<COPIES;i++) wait(bar+8*(i&3),(i/4)&1);
    out[0]=t; over=1;
  }
}
template<int C,int ACROSS> void go(long long* o, float* s, char* from) {
  auto kernel=both<C,ACROSS>; cudaFuncSetAttribute(kernel,cudaFuncAttributeMaxDynamicSharedMemorySize,196608);
  for (int way=0;way<3;way++) {
    int copies=way!=1, products=way!=0;
    cudaMemset(o,0,64);
    for (int r=0;r<3;r++) kernel<<<1,256,196608>>>(o,s,from,copies,products);
    long long h[3]; cudaMemcpy(h,o,24,cudaMemcpyDeviceToHost);
    double rate=h[1]?double(h[2])*24*(C/2)/h[1]:0;
    printf("%d columns, rows of B %s, %s: %.1f cycles for 32 KiB, products at %.2f of their rate (%s)\n",C,ACROSS?"along n":"along k",
           way==0?"copies alone":way==1?"products alone":"both",copies?double(h[0])/(COPIES-16):0.0,rate,cudaGetErrorString(cudaGetLastError()));
  }
}
int main() {
  long long* o; float* s; char* from; cudaMalloc(&o,64); cudaMalloc(&s,4096); cudaMalloc(&from,1<<20);
  go<32,0>(o,s,from); go<32,1>(o,s,from); go<64,0>(o,s,from); go<64,1>(o,s,from); go<128,0>(o,s,from); go<128,1>(o,s,from);
}
