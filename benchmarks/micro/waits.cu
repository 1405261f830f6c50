// What waits, arrivals and fences take on Hopper, one CTA per SM, and in which order tensor cores serve two and three
// warpgroups:
//
//     nvcc -gencode arch=compute_90a,code=sm_90a -O3 -cudart static -o waits benchmarks/micro/waits.cu && ./waits
//
// Cycles of a warp, least disturbed: each step depends on the one before. Results of an H200 are in results/waits.txt.
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

#define N 512

// Arrivals on an mbarrier in shared memory: by all lanes, by one; and waits for a phase that is over.
template<int K> __global__ void b(long long* out) {
  __shared__ __align__(8) unsigned long long bar[512]; unsigned sum=0;
  uint32_t at=(uint32_t)__cvta_generic_to_shared(bar);
  if (threadIdx.x<16) asm volatile("mbarrier.init.shared.b64 [%0], %1;"::"r"(at+8*threadIdx.x),"r"(K==0||K==2||K>8?blockDim.x:blockDim.x/32));
  __syncthreads();
  bool one=(threadIdx.x&31)==0;
  long long t=clock64();
  for (int n=0;n<N;n++) {
    #pragma unroll
    for (int i=0;i<4;i++) {
      if (K==0) asm volatile("mbarrier.arrive.shared.b64 _, [%0];"::"r"(at+8*i));
      if (K==1) { if (one) asm volatile("mbarrier.arrive.shared.b64 _, [%0];"::"r"(at+8*i)); __syncwarp(); }
      if (K==2) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];"::"r"(at+8*i)); }
      if (K==3) { __syncwarp(); if (one) asm volatile("mbarrier.arrive.shared.b64 _, [%0];"::"r"(at+8*i)); }
      if (K==2||K==3) asm volatile("{.reg .pred p; L%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra L%=;}"::"r"(at+8*i),"r"(n&1):"memory");
      if (K==4) asm volatile("{.reg .pred p; L%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra L%=;}"::"r"(at+8*i),"r"(1):"memory");
      if (K==6) asm volatile("fence.proxy.async.shared::cta;":::"memory");
      if (K==7) { asm volatile("{.reg .b32 r; ld.shared.b32 r, [%0]; }"::"r"(at+64):"memory"); asm volatile("fence.proxy.async.shared::cta;":::"memory"); }
      if (K==8) { asm volatile("st.shared.b32 [%0], %1;"::"r"(at+1024+4*threadIdx.x),"r"(n):"memory"); asm volatile("fence.proxy.async.shared::cta;":::"memory"); }
      if (K==9) { asm volatile("st.shared.b32 [%0], %1;"::"r"(at+1024+4*threadIdx.x),"r"(n):"memory"); asm volatile("mbarrier.arrive.shared.b64 _, [%0];"::"r"(at+8*i)); }
      if (K==10) { unsigned r; asm volatile("ld.shared.b32 %0, [%1];":"=r"(r):"r"(at+1024+4*threadIdx.x):"memory"); asm volatile("mbarrier.arrive.shared.b64 _, [%0];"::"r"(at+8*i)); sum+=r; }
      if (K==5) asm volatile("bar.sync %0, %1;"::"r"(i+1),"r"(blockDim.x):"memory");
    }
  }
  t=clock64()-t;
  if (threadIdx.x==0&&blockIdx.x==0) *out=t; if (sum==12345) out[1]=sum;
}
template<int K> void bb(const char* name, long long* o) {
  for (int th: {32,128,256,384}) { for (int r=0;r<2;r++) b<K><<<132,th>>>(o); long long h; cudaMemcpy(&h,o,8,cudaMemcpyDeviceToHost);
    printf("%s, %d warps: %.1f cycles each (%s)\n",name,th/32,double(h)/N/4,cudaGetErrorString(cudaGetLastError())); }
}
// Warpgroups issue products of 64 x 128 and 32 bytes of k, some cycles apart: when they have issued them, and when they are complete.
#define D8(i) "+f"(d[i]),"+f"(d[i+1]),"+f"(d[i+2]),"+f"(d[i+3]),"+f"(d[i+4]),"+f"(d[i+5]),"+f"(d[i+6]),"+f"(d[i+7])
#define R64 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
template<int PRODUCTS> __global__ void g(long long* out, float* sink, int delay) {
  extern __shared__ __align__(1024) char sm[];
  float d[64]; for (int i=0;i<64;i++) d[i]=0;
  uint64_t base=(uint64_t)((uint32_t)__cvta_generic_to_shared(sm)>>4)&0x3fff;
  uint64_t desc=base|(1ull<<16)|(64ull<<32)|(1ull<<62), db=desc+(16384>>4);
  int w=threadIdx.x/128; long long a=0,i=0,e=0;
  for (int r=0;r<3;r++) {
    __syncthreads();
    long long t=clock64();
    while (clock64()-t<400+w*delay);
    a=clock64();
    asm volatile("wgmma.fence.sync.aligned;");
    #pragma unroll
    for (int s=0;s<PRODUCTS;s++) asm volatile("wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 " R64 ",%64,%65,1,1,1;":D8(0),D8(8),D8(16),D8(24),D8(32),D8(40),D8(48),D8(56):"l"(desc+2*(s&3)),"l"(db+2*(s&3)));
    asm volatile("wgmma.commit_group.sync.aligned;");
    i=clock64();
    asm volatile("wgmma.wait_group.sync.aligned 0;");
    e=clock64();
    __syncthreads();
  }
  float s=0; for (int n=0;n<64;n++) s+=d[n]; sink[threadIdx.x]=s;
  if (blockIdx.x==0&&threadIdx.x%128==0) { out[3*w]=a; out[3*w+1]=i; out[3*w+2]=e; }
}
template<int P> void go(long long* o, float* x) {
  cudaFuncSetAttribute(g<P>,cudaFuncAttributeMaxDynamicSharedMemorySize,65536);
  for (int th: {128,256,384}) for (int delay: {0,40,100,200,300}) { long long h[9]={0}; for (int r=0;r<3;r++) g<P><<<132,th,65536>>>(o,x,delay); cudaMemcpy(h,o,72,cudaMemcpyDeviceToHost);
    printf("%d wgmmas, %d warpgroups %d apart:",P,th/128,delay); for (int w=0;w<th/128;w++) printf("  [%lld issued %lld done %lld]",h[3*w]-h[0],h[3*w+1]-h[0],h[3*w+2]-h[0]); printf("  %s\n",cudaGetErrorString(cudaGetLastError())); }
}
int main() {
  long long* o; float* x; cudaMalloc(&x, 1 << 20); cudaMalloc(&o, 72);
  bb<0>("arrive of all lanes", o); bb<1>("arrive of one lane", o); bb<2>("arrive of all lanes and wait", o);
  bb<3>("arrive of one lane and wait", o); bb<4>("wait for a phase that is over", o); bb<5>("bar.sync", o);
  bb<6>("fence.proxy.async", o); bb<7>("ld.shared and fence.proxy.async", o); bb<8>("st.shared and fence.proxy.async", o);
  bb<9>("st.shared and arrive of all lanes", o); bb<10>("ld.shared and arrive of all lanes", o);
  go<1>(o, x); go<4>(o, x); go<8>(o, x);
}
