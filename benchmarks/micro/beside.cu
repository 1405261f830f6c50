// What threads lose beside products on Hopper: a warpgroup multiplies without end, others execute one kind of instruction; cycles of a
// scheduler for each instruction of a warp, with the tensor cores idle and busy, and what share of their rate the products keep:
//
//     nvcc -gencode arch=compute_90a,code=sm_90a -O3 -cudart static -o beside benchmarks/micro/beside.cu && ./beside
//
// Results of an H200 are in results/beside.txt.
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

#define N 64
#define EACH 32
#define D8(i) "+f"(d[i]),"+f"(d[i+1]),"+f"(d[i+2]),"+f"(d[i+3]),"+f"(d[i+4]),"+f"(d[i+5]),"+f"(d[i+6]),"+f"(d[i+7])
#define D32(i) D8(i),D8(i+8),D8(i+16),D8(i+24)
#define R32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define R64 R32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

__device__ void fma(float& x, float y) { asm volatile("fma.rn.f32 %0, %0, %1, %1;":"+f"(x):"f"(y)); }
__device__ void most(float& x, float y) { asm volatile("max.f32 %0, %0, %1;":"+f"(x):"f"(y)); }
__device__ void ex2(float& x, float y) { asm volatile("ex2.approx.ftz.f32 %0, %0;":"+f"(x)); }
__device__ void imad(float& x, float y) { uint32_t u=__float_as_uint(x); asm volatile("mad.lo.u32 %0, %0, %1, %1;":"+r"(u):"r"(__float_as_uint(y))); x=__uint_as_float(u); }
__device__ void pack(float& x, float y) { uint32_t u; asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;":"=r"(u):"f"(x),"f"(y)); x=__uint_as_float(u); }
__device__ void shuffle(float& x, float y) { asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, -1;":"+f"(x)); }

template<int K> __device__ void one(float& x, float y, uint32_t at, int i) {
  if (K==0) fma(x,y); if (K==1) most(x,y); if (K==2) ex2(x,y); if (K==3) imad(x,y); if (K==4) pack(x,y); if (K==5) shuffle(x,y);
  if (K==6) { float d; asm volatile("ld.volatile.shared.b32 %0, [%1];":"=f"(d):"r"(at+512*(i&7))); x+=d; }
  if (K==7) asm volatile("st.volatile.shared.b32 [%0], %1;"::"r"(at+512*(i&7)),"f"(x));
  if (K==8) { if (i&1) fma(x,y); else most(x,y); }
}
// P: 0 none, 1 64 x 64, 2 64 x 128, 3 64 x 128 with A in registers.
template<int P> __device__ void multiply(float* d, uint64_t a, uint64_t b) {
  uint32_t q[4]; for (int i=0;i<4;i++) asm volatile("mov.b32 %0, 0x3f803f80;":"=r"(q[i]));
  asm volatile("wgmma.fence.sync.aligned;");
  #pragma unroll
  for (int s=0;s<24;s++) {
    if (P==1) asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" R32 "},%32,%33,1,1,1,0,0;":D32(0):"l"(a+2*(s&3)),"l"(b+2*(s&3)));
    if (P==2) asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" R64 "},%64,%65,1,1,1,0,0;":D32(0),D32(32):"l"(a+2*(s&3)),"l"(b+2*(s&3)));
    if (P==3) asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" R64 "},{%64,%65,%66,%67},%68,1,1,1,0;":D32(0),D32(32):"r"(q[0]),"r"(q[1]),"r"(q[2]),"r"(q[3]),"l"(b+2*(s&3)));
  }
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
}
template<int K,int P> __global__ void __launch_bounds__(384,1) beside(long long* out, float* sink, float y) {
  extern __shared__ __align__(1024) char sm[];
  __shared__ volatile int over;
  uint32_t start=(uint32_t)__cvta_generic_to_shared(sm);
  int w=threadIdx.x/128;
  if (threadIdx.x==0) over=0;
  __syncthreads();
  if (w==0) {
    if (P==0) return;
    float d[64]; for (int i=0;i<64;i++) d[i]=0;
    uint64_t a=((start>>4)&0x3fff)|(1ull<<16)|(64ull<<32)|(1ull<<62), b=a+(16384>>4);
    long long t=clock64(); int turns=0;
    while (over<int(blockDim.x/128)-1) { multiply<P>(d,a,b); turns++; }
    asm volatile("wgmma.wait_group.sync.aligned 0;");
    t=clock64()-t;
    float s=0; for (int i=0;i<64;i++) s+=d[i]; sink[threadIdx.x]=s;
    if (threadIdx.x==0) { out[2]=t; out[3]=turns; }
    return;
  }
  float x[EACH]; for (int i=0;i<EACH;i++) x[i]=threadIdx.x*y+i;
  uint32_t at=start+65536+(w-1)*16384+(threadIdx.x%128)*4;
  long long begin=clock64(); while (clock64()-begin<2000);
  long long t=clock64();
  for (int n=0;n<N;n++)
    #pragma unroll
    for (int i=0;i<EACH;i++) one<K>(x[i],y,at,i);
  t=clock64()-t;
  float s=0; for (int i=0;i<EACH;i++) s+=x[i]; sink[threadIdx.x]=s;
  __syncwarp();
  asm volatile("bar.sync 1, %0;"::"r"(blockDim.x-128):"memory");
  if (threadIdx.x%128==0) { out[w-1]=t; atomicAdd((int*)&over,1); }
}
template<int K,int P> void go(const char* name, const char* product, long long* o, float* s) {
  auto kernel=beside<K,P>; cudaFuncSetAttribute(kernel,cudaFuncAttributeMaxDynamicSharedMemorySize,114688);
  for (int threads: {256,384}) {
    for (int r=0;r<3;r++) kernel<<<1,threads,114688>>>(o,s,1.0001f);
    long long h[4]={0,0,0,0}; cudaMemcpy(h,o,32,cudaMemcpyDeviceToHost);
    double columns=P==1?64:128, rate=P?double(h[3])*24*columns/2/h[2]:0;
    printf("%s, %s, %d warpgroups: %.2f cycles each, products at %.2f of their rate (%s)\n",name,product,threads/128-1,double(h[0])/N/EACH/(threads/128-1),rate,cudaGetErrorString(cudaGetLastError()));
  }
}
template<int K> void all(const char* name, long long* o, float* s) {
  go<K,0>(name,"no products",o,s); go<K,1>(name,"64 x 64",o,s); go<K,2>(name,"64 x 128",o,s); go<K,3>(name,"64 x 128 from registers",o,s);
}
int main() {
  long long* o; float* s; cudaMalloc(&o,64); cudaMalloc(&s,4096);
  all<0>("ffma",o,s); all<1>("fmnmx",o,s); all<2>("ex2",o,s); all<3>("imad",o,s); all<4>("pack",o,s); all<5>("shfl",o,s); all<6>("lds",o,s); all<7>("sts",o,s); all<8>("ffma and fmnmx",o,s);
}
