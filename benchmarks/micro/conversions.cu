// What conversions and reads of few bytes take on Hopper: cycles of a scheduler for each instruction of a warp, with one and two
// warps on each (128 and 256 threads), independent of each other; and whole conversions of 8-bit weights as generated kernels have
// them, 64 numbers of a thread:
//
//     nvcc -gencode arch=compute_90a,code=sm_90a -O3 -cudart static -o conversions benchmarks/micro/conversions.cu && ./conversions
//
// Results of an H200 are in results/conversions.txt.
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

#define N 256
#define EACH 32

__device__ uint32_t unpack(uint32_t x) { uint32_t d; asm volatile("cvt.rn.f16x2.e4m3x2 %0, %1;":"=r"(d):"h"((uint16_t)x)); return d; }
__device__ uint32_t pack(uint32_t x, uint32_t y) { uint32_t d; asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;":"=r"(d):"f"(__uint_as_float(x)),"f"(__uint_as_float(y))); return d; }
__device__ uint32_t widen(uint32_t x) { float d; asm volatile("cvt.f32.f16 %0, %1;":"=f"(d):"h"((uint16_t)x)); return __float_as_uint(d); }
__device__ uint32_t prmt(uint32_t x, uint32_t y) { uint32_t d; asm volatile("prmt.b32 %0, %1, %2, 0x5140;":"=r"(d):"r"(x),"r"(y)); return d; }
__device__ uint32_t lop(uint32_t x, uint32_t y) { uint32_t d; asm volatile("lop3.b32 %0, %1, %2, 0x00ff00ff, 0x6a;":"=r"(d):"r"(x),"r"(y)); return d; }
__device__ uint32_t fma2(uint32_t x, uint32_t y) { uint32_t d; asm volatile("fma.rn.bf16x2 %0, %1, %2, %1;":"=r"(d):"r"(x),"r"(y)); return d; }
__device__ uint32_t hadd2(uint32_t x, uint32_t y) { uint32_t d; asm volatile("add.rn.f16x2 %0, %1, %2;":"=r"(d):"r"(x),"r"(y)); return d; }
__device__ uint32_t fmul(uint32_t x, uint32_t y) { float d; asm volatile("mul.rn.f32 %0, %1, %2;":"=f"(d):"f"(__uint_as_float(x)),"f"(__uint_as_float(y))); return __float_as_uint(d); }
__device__ uint32_t imad(uint32_t x, uint32_t y) { uint32_t d; asm volatile("mad.lo.u32 %0, %1, %2, %1;":"=r"(d):"r"(x),"r"(y)); return d; }

template<int K> __global__ void rate(long long* out, uint32_t* sink, uint32_t y) {
  __shared__ uint32_t shared[4096];
  uint32_t x[EACH];
  for (int i=threadIdx.x;i<4096;i+=blockDim.x) shared[i]=i;
  for (int i=0;i<EACH;i++) x[i]=threadIdx.x*77+i;
  uint32_t at=(uint32_t)__cvta_generic_to_shared(shared)+(threadIdx.x&31)*(K==10?2:4);
  __syncthreads();
  long long t=clock64();
  for (int n=0;n<N;n++)
    #pragma unroll
    for (int i=0;i<EACH;i++) {
      if (K==0) x[i]=unpack(x[i]); if (K==1) x[i]=pack(x[i],y); if (K==2) x[i]=widen(x[i]); if (K==3) x[i]=prmt(x[i],y); if (K==4) x[i]=lop(x[i],y);
      if (K==5) x[i]=fma2(x[i],y); if (K==6) x[i]=hadd2(x[i],y); if (K==7) x[i]=fmul(x[i],y); if (K==8) x[i]=imad(x[i],y);
      if (K==9) { uint32_t d; asm volatile("ld.volatile.shared.b32 %0, [%1];":"=r"(d):"r"(at+128*i)); x[i]^=d; }
      if (K==10) { uint16_t d; asm volatile("ld.volatile.shared.u16 %0, [%1];":"=h"(d):"r"(at+64*i)); x[i]^=d; }
      if (K==11) { x[i]=i%2?unpack(x[i]):widen(x[i]); } if (K==12) { x[i]=i%2?pack(x[i],y):widen(x[i]); } if (K==13) { x[i]=i%2?prmt(x[i],y):widen(x[i]); }
      if (K==16) { x[i]=i%2?lop(x[i],y):pack(x[i],y); } if (K==14) { x[i]=i%2?unpack(x[i]):pack(x[i],y); } if (K==15) { x[i]=i%2?fmul(x[i],y):widen(x[i]); }
    }
  t=clock64()-t;
  uint32_t s=0; for (int i=0;i<EACH;i++) s+=x[i];
  if (threadIdx.x==0) *out=t; if (s==12345) *sink=s;
}
template<int K> void go(const char* name, long long* o, uint32_t* s) {
  for (int th: {128,256}) { for (int r=0;r<3;r++) rate<K><<<1,th>>>(o,s,0x3f803f80); long long h; cudaMemcpy(&h,o,8,cudaMemcpyDeviceToHost);
    printf("%s, %d warps of a scheduler: %.2f cycles each (%s)\n",name,th/128,double(h)/N/EACH/(th/128),cudaGetErrorString(cudaGetLastError())); }
}
// 64 numbers of a thread as a product's left operand has them: two neighbours in each of four rows' bytes at a time.
template<int K> __global__ void whole(long long* out, uint32_t* sink, uint32_t y) {
  __shared__ uint32_t shared[8192]; uint32_t sum=0;
  for (int i=threadIdx.x;i<8192;i+=blockDim.x) shared[i]=i;
  uint32_t at=(uint32_t)__cvta_generic_to_shared(shared)+(threadIdx.x/128)*8192+(threadIdx.x%32/4)*128+(threadIdx.x%4)*2+(threadIdx.x/32%4)*2048;
  __syncthreads();
  long long t=clock64();
  for (int n=0;n<N;n++) {
    uint32_t x[32];
    if (K<2) {
      #pragma unroll
      for (int i=0;i<32;i++) { uint16_t d; asm volatile("ld.volatile.shared.u16 %0, [%1];":"=h"(d):"r"((at+(i&1)*1024+(i/2)*8)^((threadIdx.x%32/4)*16))); x[i]=d; }
    } else {
      #pragma unroll
      for (int i=0;i<32;i++) x[i]=sum+i;
    }
    if (K==1||K==2) {
      #pragma unroll
      for (int i=0;i<32;i++) { uint32_t h=unpack(x[i]); x[i]=pack(widen(h),widen(h>>16)); }
    }
    #pragma unroll
    for (int i=0;i<32;i++) sum^=x[i];
    __syncwarp();
  }
  t=clock64()-t;
  if (threadIdx.x==0) *out=t; if (sum==12345) *sink=sum;
}
template<int K> void all(const char* name, long long* o, uint32_t* s) {
  for (int th: {128,256}) { for (int r=0;r<3;r++) whole<K><<<1,th>>>(o,s,3); long long h; cudaMemcpy(&h,o,8,cudaMemcpyDeviceToHost);
    printf("%s, %d warpgroups: %.1f cycles (%s)\n",name,th/128,double(h)/N,cudaGetErrorString(cudaGetLastError())); }
}
int main() {
  long long* o; uint32_t* s; cudaMalloc(&o,64); cudaMalloc(&s,64);
  go<0>("e4m3x2 to f16x2",o,s); go<1>("two f32 to bf16x2",o,s); go<2>("f16 to f32",o,s); go<3>("prmt",o,s); go<4>("lop3",o,s); go<5>("fma of bf16x2",o,s);
  go<6>("add of f16x2",o,s); go<7>("mul of f32",o,s); go<8>("imad",o,s); go<9>("ld.shared of 4 bytes and an xor",o,s); go<10>("ld.shared of 2 bytes and an xor",o,s);
  go<11>("unpack and widen in turn",o,s); go<12>("pack and widen in turn",o,s); go<13>("prmt and widen in turn",o,s); go<14>("unpack and pack in turn",o,s); go<15>("mul and widen in turn",o,s); go<16>("lop3 and pack in turn",o,s);
  all<0>("64 numbers of 8 bits read two at a time",o,s); all<1>("64 numbers read and converted to bf16",o,s); all<2>("64 numbers converted to bf16",o,s);
}
