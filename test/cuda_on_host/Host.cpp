//===- Host.cpp - The host's part in the order of things --------*- C++ -*-===//
#include "test/cuda_on_host/Machine.h"

#include <algorithm>

namespace ciuic::onhost {

namespace {

struct HostFunction {
  CUstream_st *stream = nullptr;
  bool released = false; ///< A token was taken.
};
thread_local HostFunction hostFunction;

} // namespace

bool insideHostFunction() { return hostFunction.stream != nullptr; }

void Machine::enqueueHostFunction(CUstream_st &stream, cudaHostFn_t function,
                                  void *data) {
  Step step;
  step.name = stream.label.empty() ? "a host function" : stream.label;
  step.run = [this, function, data](CUstream_st &on) {
    hostFunction = {&on, false};
    function(data);
    bool released = hostFunction.released;
    hostFunction = {};
    if (released)
      return;
    std::lock_guard lock(mutex);
    hostSees(on.clock);
  };
  enqueue(stream, std::move(step));
}

uint64_t Machine::release() {
  std::lock_guard lock(mutex);
  Token token;
  if (hostFunction.stream) {
    hostFunction.released = true;
    if (!strikes(Fault::DropHostOrder))
      token.clock = hostFunction.stream->clock;
  } else {
    token.clock = hostClock;
  }
  std::lock_guard memory(shadow().mutex);
  token.timeline = shadow().newTimeline();
  tokens[nextToken] = std::move(token);
  return nextToken++;
}

uint64_t Machine::merge(uint64_t token, uint64_t other) {
  std::lock_guard lock(mutex);
  Token both = tokens[token];
  join(both.clock, tokens[other].clock);
  std::lock_guard memory(shadow().mutex);
  both.timeline = shadow().newTimeline();
  tokens[nextToken] = std::move(both);
  return nextToken++;
}

void Machine::access(uint64_t token, const void *pointer, size_t bytes,
                     bool write, const std::string &name) {
  std::lock_guard lock(mutex);
  auto at = tokens.find(token);
  std::lock_guard memory(shadow().mutex);
  if (at == tokens.end()) {
    shadow().report(name + " uses an unknown token");
    return;
  }
  shadow().begin(at->second.timeline, at->second.clock, name, -1);
  if (write)
    shadow().write(pointer, bytes);
  else
    shadow().read(pointer, bytes);
  shadow().end();
}

void Machine::hostAccess(const void *pointer, size_t bytes, bool write) {
  if (hostFunction.stream) {
    work(*hostFunction.stream, "a host function", [&] {
      write ? shadow().write(pointer, bytes) : shadow().read(pointer, bytes);
    });
    return;
  }
  std::lock_guard lock(mutex);
  Clock mine = *hostSnapshot();
  std::lock_guard memory(shadow().mutex);
  if (hostClock.empty())
    hostClock.resize(1, 0);
  mine.resize(std::max<size_t>(mine.size(), 1), 0);
  shadow().begin(0, mine, "the host", -1);
  if (write)
    shadow().write(pointer, bytes);
  else
    shadow().read(pointer, bytes);
  shadow().end();
  hostClock[0] = mine[0];
  snapshot = nullptr;
}

void Machine::signal(uint64_t token, const uint32_t *flag, uint32_t value) {
  std::lock_guard lock(mutex);
  auto at = tokens.find(token);
  if (at != tokens.end())
    signals[flag].push_back({value, at->second.clock});
}

void Machine::joinToken(uint64_t token) {
  std::lock_guard lock(mutex);
  auto at = tokens.find(token);
  if (at == tokens.end())
    return;
  extendThreadOrder(at->second.clock);
}

void Machine::acquireFlag(CUstream_st &stream, const uint32_t *flag,
                          uint32_t value) {
  if (strikes(Fault::DropSignal))
    return;
  auto at = signals.find(flag);
  if (at == signals.end()) {
    // Stored by code that announces nothing: after all that the host did.
    join(stream.clock, hostClock);
    return;
  }
  // Stores of one flag are seen in their order: those up to `value`.
  Clock seen;
  std::erase_if(at->second, [&](const Signal &one) {
    if (static_cast<int32_t>(value - one.value) < 0)
      return false;
    join(seen, one.clock);
    return true;
  });
  join(stream.clock, seen);
  at->second.push_back({value, std::move(seen)});
}

} // namespace ciuic::onhost
