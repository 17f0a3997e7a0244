//===- onhost_device.h - The device language as C++ --------------*- C++
//-*-===//
//
// Lets a file of `__global__` functions compile as C++. Threads of a block are
// fibers, so that barriers and shuffles can wait. Statically shared memory is
// static data of its own section: one block runs at a time.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_CUDA_ON_HOST_INCLUDE_ONHOST_DEVICE_H
#define CIUIC_CUDA_ON_HOST_INCLUDE_ONHOST_DEVICE_H

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <math.h>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("onhost_shared")))

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1)
      : x(x), y(y), z(z) {}
};

struct uint3 {
  unsigned x, y, z;
};

#define CIUIC_ONHOST_VECTOR(T, name, align)                                    \
  struct alignas(2 * sizeof(T)) name##2 { T x, y; };                           \
  struct alignas(align) name##4 { T x, y, z, w; };                             \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                   \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CIUIC_ONHOST_VECTOR(float, float, 16)
CIUIC_ONHOST_VECTOR(int, int, 16)
CIUIC_ONHOST_VECTOR(unsigned, uint, 16)
#undef CIUIC_ONHOST_VECTOR

namespace ciuic::onhost {

/// A warp exchange: what kind, among which lanes, from where in the source.
enum class Exchange : int {
  Indexed,
  Xor,
  Up,
  Down,
  Ballot,
  Sync,
  LoadMatrix,
  LoadMatrixTransposed,
  ProductF16,
  ProductBf16
};

} // namespace ciuic::onhost

extern "C" {
[[gnu::const]] uint3 onhost_thread_index();
[[gnu::const]] uint3 onhost_block_index();
[[gnu::const]] uint3 onhost_block_size();
[[gnu::const]] uint3 onhost_grid_size();
void onhost_barrier(const char *file, int line);
uint64_t onhost_exchange(int kind, uint32_t mask, uint64_t value, int argument,
                         int width, const char *file, int line);
/// The old value; `kind`: 0 add, 1 min, 2 max, 3 and, 4 or, 5 exchange,
/// 6 compare and swap. `type`: 0 i32, 1 u32, 2 u64, 3 f32, 4 f64.
uint64_t onhost_atomic(int kind, int type, void *address, uint64_t value,
                       uint64_t compare);
unsigned onhost_lane_mask();
}

#define threadIdx (onhost_thread_index())
#define blockIdx (onhost_block_index())
#define blockDim (onhost_block_size())
#define gridDim (onhost_grid_size())
inline constexpr int warpSize = 32;

// The place of the caller tells barriers apart: all threads of a block must
// meet at the same one.
#define CIUIC_ONHOST_PLACE                                                     \
  const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(CIUIC_ONHOST_PLACE) { onhost_barrier(file, line); }
inline void __syncwarp(unsigned mask = 0xffffffffu, CIUIC_ONHOST_PLACE) {
  onhost_exchange(static_cast<int>(ciuic::onhost::Exchange::Sync), mask, 0, 0,
                  32, file, line);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

namespace ciuic::onhost {
template <typename T>
inline T exchange(Exchange kind, unsigned mask, T value, int argument,
                  int width, const char *file, int line) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = onhost_exchange(static_cast<int>(kind), mask, bits, argument, width,
                         file, line);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
} // namespace ciuic::onhost

template <typename T>
inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
                     CIUIC_ONHOST_PLACE) {
  return ciuic::onhost::exchange(ciuic::onhost::Exchange::Indexed, mask, value,
                                 lane, width, file, line);
}
template <typename T>
inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                         CIUIC_ONHOST_PLACE) {
  return ciuic::onhost::exchange(ciuic::onhost::Exchange::Xor, mask, value,
                                 lanes, width, file, line);
}
template <typename T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32,
                        CIUIC_ONHOST_PLACE) {
  return ciuic::onhost::exchange(ciuic::onhost::Exchange::Up, mask, value,
                                 static_cast<int>(lanes), width, file, line);
}
template <typename T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned lanes,
                          int width = 32, CIUIC_ONHOST_PLACE) {
  return ciuic::onhost::exchange(ciuic::onhost::Exchange::Down, mask, value,
                                 static_cast<int>(lanes), width, file, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              CIUIC_ONHOST_PLACE) {
  return ciuic::onhost::exchange(ciuic::onhost::Exchange::Ballot, mask,
                                 static_cast<unsigned>(predicate != 0), 0, 32,
                                 file, line);
}
inline int __any_sync(unsigned mask, int predicate, CIUIC_ONHOST_PLACE) {
  return __ballot_sync(mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, CIUIC_ONHOST_PLACE) {
  return __ballot_sync(mask, predicate == 0, file, line) == 0;
}
inline unsigned __activemask() { return onhost_lane_mask(); }
#undef CIUIC_ONHOST_PLACE

namespace ciuic::onhost {
template <typename T> constexpr int atomicType();
template <> constexpr int atomicType<int>() { return 0; }
template <> constexpr int atomicType<unsigned>() { return 1; }
template <> constexpr int atomicType<unsigned long long>() { return 2; }
template <> constexpr int atomicType<float>() { return 3; }
template <> constexpr int atomicType<double>() { return 4; }
template <typename T>
inline T atomic(int kind, T *address, T value, T compare = T()) {
  uint64_t bits = 0, other = 0;
  std::memcpy(&bits, &value, sizeof(T));
  std::memcpy(&other, &compare, sizeof(T));
  bits = onhost_atomic(kind, atomicType<T>(), address, bits, other);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
} // namespace ciuic::onhost

#define CIUIC_ONHOST_ATOMIC(T)                                                 \
  inline T atomicAdd(T *p, T v) { return ciuic::onhost::atomic(0, p, v); }     \
  inline T atomicMin(T *p, T v) { return ciuic::onhost::atomic(1, p, v); }     \
  inline T atomicMax(T *p, T v) { return ciuic::onhost::atomic(2, p, v); }     \
  inline T atomicAnd(T *p, T v) { return ciuic::onhost::atomic(3, p, v); }     \
  inline T atomicOr(T *p, T v) { return ciuic::onhost::atomic(4, p, v); }      \
  inline T atomicExch(T *p, T v) { return ciuic::onhost::atomic(5, p, v); }    \
  inline T atomicCAS(T *p, T compare, T v) {                                   \
    return ciuic::onhost::atomic(6, p, v, compare);                            \
  }
CIUIC_ONHOST_ATOMIC(int)
CIUIC_ONHOST_ATOMIC(unsigned)
CIUIC_ONHOST_ATOMIC(unsigned long long)
#undef CIUIC_ONHOST_ATOMIC
inline float atomicAdd(float *p, float v) {
  return ciuic::onhost::atomic(0, p, v);
}
inline double atomicAdd(double *p, double v) {
  return ciuic::onhost::atomic(0, p, v);
}

template <typename T> inline T __ldg(const T *p) { return *p; }
template <typename T> inline T __ldcs(const T *p) { return *p; }
template <typename T> inline T __ldcg(const T *p) { return *p; }
template <typename T> inline void __stcs(T *p, T v) { *p = v; }
template <typename T> inline void __stcg(T *p, T v) { *p = v; }

// Approximations of the device are computed exactly here and rounded once.
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frsqrt_rn(float x) { return 1.0f / std::sqrt(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __dsqrt_rn(double x) { return std::sqrt(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline int __float2int_rn(float x) {
  return static_cast<int>(std::nearbyint(x));
}
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) {
  return std::bit_cast<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return std::bit_cast<double>(x);
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<uint64_t>(x) * y) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long x,
                                     unsigned long long y) {
  return static_cast<unsigned long long>(
      (static_cast<unsigned __int128>(x) * y) >> 64);
}
inline int min(int x, int y) { return x < y ? x : y; }
inline int max(int x, int y) { return x > y ? x : y; }
inline unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }
inline unsigned max(unsigned x, unsigned y) { return x > y ? x : y; }
inline long min(long x, long y) { return x < y ? x : y; }
inline long max(long x, long y) { return x > y ? x : y; }
inline long long min(long long x, long long y) { return x < y ? x : y; }
inline long long max(long long x, long long y) { return x > y ? x : y; }
inline unsigned long min(unsigned long x, unsigned long y) {
  return x < y ? x : y;
}
inline unsigned long max(unsigned long x, unsigned long y) {
  return x > y ? x : y;
}
inline float min(float x, float y) { return std::fmin(x, y); }
inline float max(float x, float y) { return std::fmax(x, y); }
inline double min(double x, double y) { return std::fmin(x, y); }
inline double max(double x, double y) { return std::fmax(x, y); }

namespace ciuic::onhost {

/// Dynamic shared memory of the running block.
void *dynamicShared();

/// 16 bytes from global to shared memory, or 16 zero bytes; they arrive when
/// their group is waited for, not before.
void cpAsync16(void *shared, const void *global, bool valid);
void cpAsyncCommit();
void cpAsyncWait(int groupsLeft);

/// ldmatrix.x4: lane 8 i + j gives the address of row j of matrix i.
void ldmatrix4(uint32_t (&r)[4], const void *row, bool transposed);

/// mma.m16n8k16, f32 += 16 bit times 16 bit.
void mma16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
              bool bf16);

/// Where the statically shared arrays of a library lie.
struct SharedSection {
  SharedSection(const char *begin, const char *end);
};

} // namespace ciuic::onhost

// The linker defines these where a library has shared arrays.
extern "C" __attribute__((weak, visibility("hidden")))
const char __start_onhost_shared[];
extern "C" __attribute__((weak, visibility("hidden")))
const char __stop_onhost_shared[];
static const ciuic::onhost::SharedSection
    onhostSharedSection(__start_onhost_shared, __stop_onhost_shared);

#endif // CIUIC_CUDA_ON_HOST_INCLUDE_ONHOST_DEVICE_H
