// Shared memory as lanes of a warp ask for it in several patterns, for a profiler's count of passes (wavefronts) beside that of
// `schedgen race --banks`:
//
//     nvcc -gencode arch=compute_90a,code=sm_90a -O3 -cudart static -o banks benchmarks/micro/banks.cu
//     ncu --csv --metrics l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum,l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum ./banks > CSV
//     python benchmarks/micro/profiled.py CSV --gpu "NVIDIA H200" > benchmarks/results/banks_profiled.json
//
// tests/emulator/race/test_profiled_banks.py compares results/banks_profiled.json, those of an H200, with the emulator's count.
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

// KIND: bytes of a lane, 2, 4, 8 or 16, or 1 for ldmatrix and stmatrix of four matrices, of 16 bytes of each lane. Lanes are `pitch`
// bytes apart, those that differ only in bits that `mask` has not are at one place; of those with the bit `swap` the address is
// flipped by `flip`.
template<int KIND, bool STORE> __global__ void shared(uint32_t* out, int pitch, int swap, int flip, int mask) {
  extern __shared__ __align__(1024) uint32_t memory[];
  uint32_t base=(uint32_t)__cvta_generic_to_shared(memory), lane=threadIdx.x, at=base+(((lane&mask)*pitch)^((lane&swap)?flip:0));
  uint32_t a=lane, b=lane, c=lane, d=lane;
  if (KIND==2&&!STORE) { uint16_t h; asm volatile("ld.shared.u16 %0, [%1];":"=h"(h):"r"(at)); a=h; }
  if (KIND==4&&!STORE) asm volatile("ld.shared.b32 %0, [%1];":"=r"(a):"r"(at));
  if (KIND==8&&!STORE) asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];":"=r"(a),"=r"(b):"r"(at));
  if (KIND==16&&!STORE) asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];":"=r"(a),"=r"(b),"=r"(c),"=r"(d):"r"(at));
  if (KIND==1&&!STORE) asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];":"=r"(a),"=r"(b),"=r"(c),"=r"(d):"r"(at));
  if (KIND==2&&STORE) asm volatile("st.shared.u16 [%0], %1;"::"r"(at),"h"((uint16_t)a));
  if (KIND==4&&STORE) asm volatile("st.shared.b32 [%0], %1;"::"r"(at),"r"(a));
  if (KIND==8&&STORE) asm volatile("st.shared.v2.b32 [%0], {%1,%2};"::"r"(at),"r"(a),"r"(b));
  if (KIND==16&&STORE) asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};"::"r"(at),"r"(a),"r"(b),"r"(c),"r"(d));
  if (KIND==1&&STORE) asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"::"r"(at),"r"(a),"r"(b),"r"(c),"r"(d));
  out[lane]=a+b+c+d;
}
#define CASE(KIND, STORE, PITCH, SWAP, FLIP, MASK) shared<KIND,STORE><<<1,32,32768>>>(out,PITCH,SWAP,FLIP,MASK);
#define SOME(KIND, PITCH, SWAP, FLIP, MASK) CASE(KIND,false,PITCH,SWAP,FLIP,MASK) CASE(KIND,true,PITCH,SWAP,FLIP,MASK)
#define BOTH(KIND, PITCH, SWAP, FLIP) SOME(KIND,PITCH,SWAP,FLIP,31)
#define MASKS(KIND, PITCH) SOME(KIND,PITCH,0,0,30) SOME(KIND,PITCH,0,0,29) SOME(KIND,PITCH,0,0,27) SOME(KIND,PITCH,0,0,23) SOME(KIND,PITCH,0,0,15) \
  SOME(KIND,PITCH,0,0,28) SOME(KIND,PITCH,0,0,24) SOME(KIND,PITCH,0,0,16) SOME(KIND,PITCH,0,0,7) SOME(KIND,PITCH,0,0,3) SOME(KIND,PITCH,0,0,1) SOME(KIND,PITCH,0,0,21)
int main() {
  uint32_t* out; cudaMalloc(&out,1024);
  // The list that benchmarks/micro/profiled.py reads: bytes of a lane, pitch, swap, flip; and of masks.
  BOTH(2,2,0,0) BOTH(2,4,0,0) BOTH(2,128,0,0) BOTH(2,8,0,0)
  BOTH(4,4,0,0) BOTH(4,8,0,0) BOTH(4,12,0,0) BOTH(4,16,0,0) BOTH(4,128,0,0) BOTH(4,132,0,0) BOTH(4,0,0,0) BOTH(4,64,0,0)
  BOTH(8,8,0,0) BOTH(8,16,0,0) BOTH(8,24,0,0) BOTH(8,128,0,0) BOTH(8,136,0,0) BOTH(8,0,0,0) BOTH(8,64,0,0) BOTH(8,8,16,64) BOTH(8,32,0,0)
  BOTH(16,16,0,0) BOTH(16,32,0,0) BOTH(16,48,0,0) BOTH(16,128,0,0) BOTH(16,144,0,0) BOTH(16,0,0,0) BOTH(16,64,0,0) BOTH(16,80,0,0) BOTH(16,16,8,64)
  BOTH(1,16,0,0) BOTH(1,32,0,0) BOTH(1,64,0,0) BOTH(1,128,0,0) BOTH(1,144,0,0) BOTH(1,80,0,0)
  MASKS(4,4) MASKS(4,8) MASKS(8,8) MASKS(8,16) MASKS(8,128) MASKS(16,16) MASKS(16,32) MASKS(16,128)
  cudaDeviceSynchronize(); printf("%s\n",cudaGetErrorString(cudaGetLastError()));
}
