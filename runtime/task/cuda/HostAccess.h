//===- HostAccess.h - Telling the tests' CUDA about host tasks --*- C++ -*-===//
//
// The emulation of CUDA that tests run on follows which work is ordered before
// which. What host tasks do, it has to be told; elsewhere these are nothing.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_HOSTACCESS_H
#define CIUIC_RUNTIME_TASK_CUDA_HOSTACCESS_H

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <string>

#ifdef CIUIC_CUDA_ON_HOST
#include "test/cuda_on_host/OnHost.h"
#endif

namespace ciuic::rt::hostaccess {

#ifdef CIUIC_CUDA_ON_HOST
inline uint64_t released() { return onhost::hostRelease(); }
inline void touches(uint64_t token, const void *p, size_t bytes, bool write,
                    const char *name) {
  onhost::hostAccess(token, p, bytes, write, name);
}
inline void signals(uint64_t token, const uint32_t *flag, uint32_t value) {
  onhost::hostSignal(token, flag, value);
}
inline void joins(uint64_t token) { onhost::hostJoin(token); }
inline void reads(const void *p, size_t bytes) { onhost::hostReads(p, bytes); }
inline void writes(const void *p, size_t bytes) {
  onhost::hostWrites(p, bytes);
}
inline void label(cudaStream_t stream, const std::string &text) {
  onhost::label(stream, text);
}
inline void forget(const void *p, size_t bytes) { onhost::forget(p, bytes); }
inline constexpr bool labels = true;
#else
/// Within a host function: a token for all that its stream has done.
inline uint64_t released() { return 0; }
/// The task `name`, which follows the token, reads or writes these bytes.
inline void touches(uint64_t, const void *, size_t, bool, const char *) {}
/// A wait that `value` of the flag ends comes after what follows the token.
inline void signals(uint64_t, const uint32_t *, uint32_t) {}
/// What this thread enqueues from now on comes after what follows the token.
inline void joins(uint64_t) {}
/// The calling thread reads or writes pinned memory.
inline void reads(const void *, size_t) {}
inline void writes(const void *, size_t) {}
/// What is enqueued on the stream from now on, for reports.
inline void label(cudaStream_t, const std::string &) {}
/// These bytes count as never written.
inline void forget(const void *, size_t) {}
inline constexpr bool labels = false;
#endif

} // namespace ciuic::rt::hostaccess

#endif // CIUIC_RUNTIME_TASK_CUDA_HOSTACCESS_H
