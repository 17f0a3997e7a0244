//===- Grid.cpp - Runs a kernel's threads as fibers -------------*- C++ -*-===//
#include "test/cuda_on_host/Grid.h"
#include "test/cuda_on_host/Shadow.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <link.h>
#include <numeric>
#include <sys/mman.h>

#ifndef __x86_64__
#error "the switch between fibers is written for x86-64"
#endif

// Saves what a callee must keep on the stack, stores the stack pointer at
// *from, and goes on where `to` was stored.
asm(R"(
.text
.p2align 4
.globl onhost_switch
.hidden onhost_switch
.type onhost_switch, @function
onhost_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size onhost_switch, .-onhost_switch
)");
extern "C" void onhost_switch(void **from, void *to);

namespace ciuic::onhost {

namespace {

constexpr size_t kStack = 128 * 1024;
constexpr size_t kGuard = 4096;

uint3 unravel(uint64_t i, const dim3 &shape) {
  return {static_cast<unsigned>(i % shape.x),
          static_cast<unsigned>(i / shape.x % shape.y),
          static_cast<unsigned>(i / shape.x / shape.y)};
}

std::string text(const uint3 &i) {
  return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " +
         std::to_string(i.z) + ")";
}

} // namespace

constinit thread_local Grid *gridOfThread = nullptr;

Grid::Grid() {
  void *memory = mmap(nullptr, kMostThreads * kStack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "cuda_on_host: no memory for stacks\n");
    std::abort();
  }
  stacks = reinterpret_cast<uintptr_t>(memory);
  fibers.resize(kMostThreads);
  for (unsigned i = 0; i < kMostThreads; ++i) {
    char *lowest = static_cast<char *>(memory) + i * kStack;
    mprotect(lowest, kGuard, PROT_NONE);
    fibers[i].stack = lowest + kGuard;
  }
}

void Grid::prepare(Fiber &fiber) {
  // Tops at different distances from a page, so that they do not fall into
  // the same sets of the cache.
  size_t number = static_cast<size_t>(&fiber - fibers.data());
  char *top = fiber.stack + kStack - kGuard - number % 48 * 320;
  auto **frame =
      reinterpret_cast<void **>(reinterpret_cast<uintptr_t>(top) / 16 * 16);
  *--frame = nullptr; // Where `enter` would return to: keeps 16 bytes aligned.
  *--frame = reinterpret_cast<void *>(&Grid::enter);
  for (int saved = 0; saved < 6; ++saved)
    *--frame = nullptr;
  fiber.stackPointer = frame;
  fiber.entered = true;
}

unsigned Grid::draw() {
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  return static_cast<unsigned>(random >> 32);
}

void Grid::setThread(Fiber &fiber, unsigned thread) {
  fiber.thread = thread;
  fiber.index = unravel(thread, blockSize);
  fiber.copies.clear();
  fiber.groups.clear();
  ofThread[thread] = &fiber;
}

/// The bottom of every fiber: runs one thread after another.
void Grid::enter() {
  for (;;) {
    Grid &grid = *gridOfThread;
    grid.inKernel = true;
    grid.launch->thread(grid.launch->closure);
    grid.inKernel = false;
    Fiber &fiber = *grid.running;
    if (!fiber.copies.empty()) {
      grid.commitCopies();
      grid.waitCopies(0);
      grid.inKernel = false;
    }
    Warp &warp = grid.warps[grid.runningWarp];
    uint32_t lane = 1u << (fiber.thread % kLanes);
    warp.runnable &= ~lane;
    warp.done |= lane;
    // The next thread of the warp that has not started needs no other stack.
    if (warp.fresh) {
      unsigned next = static_cast<unsigned>(std::countr_zero(
          std::rotr(warp.fresh, static_cast<int>(warp.rotation))));
      next = (next + warp.rotation) % kLanes;
      warp.fresh &= ~(1u << next);
      warp.runnable |= 1u << next;
      grid.setThread(fiber, grid.runningWarp * kLanes + next);
      continue;
    }
    grid.idle.push_back(&fiber);
    grid.yield();
  }
}

/// Leaves the fiber: mostly to another lane of its warp, or to the scheduler.
void Grid::yield() {
  Fiber &fiber = *running;
  const Warp &warp = warps[runningWarp];
  if (failed || !(warp.fresh | warp.runnable) || draw() % 256 == 0) {
    onhost_switch(&fiber.stackPointer, scheduler);
    return;
  }
  running = &chooseLane(runningWarp);
  if (running != &fiber)
    onhost_switch(&fiber.stackPointer, running->stackPointer);
}

bool Grid::run(const GridLaunch &what, uint64_t seed) {
  launch = &what;
  gridSize = what.grid;
  blockSize = what.block;
  threadCount = blockSize.x * blockSize.y * blockSize.z;
  warpCount = (threadCount + kLanes - 1) / kLanes;
  random = seed * 2654435761u + 88172645463325252u;
  failed = false;
  gridOfThread = this;
  uint64_t blocks = uint64_t(gridSize.x) * gridSize.y * gridSize.z;
  // A random start and an odd stride visit each block once, in an order that
  // changes from launch to launch.
  uint64_t first = draw() % blocks;
  uint64_t stride = draw() % blocks | 1;
  while (std::gcd(stride, blocks) != 1)
    stride += 2;
  for (uint64_t i = 0; i < blocks && !failed; ++i) {
    uint64_t at = static_cast<uint64_t>(
        (first + static_cast<unsigned __int128>(i) * stride) % blocks);
    blockIndex = unravel(at, gridSize);
    blockNumber = static_cast<uint32_t>(at + 1);
    runBlock();
  }
  gridOfThread = nullptr;
  return !failed;
}

void Grid::runBlock() {
  idle.clear();
  for (Fiber &fiber : fibers) {
    if (idle.size() == threadCount)
      break;
    if (failed)
      fiber.entered = false;
    idle.push_back(&fiber);
  }
  serial = serial == UINT32_MAX ? 1 : serial + 1;
  barriers = 0;
  shared.startBlock(launch->sharedBytes);
  uint32_t ready = 0;
  for (unsigned w = 0; w < warpCount; ++w) {
    unsigned lanes = std::min(kLanes, threadCount - w * kLanes);
    warps[w] = Warp();
    warps[w].lanes = lanes == kLanes ? ~0u : (1u << lanes) - 1;
    warps[w].fresh = warps[w].lanes;
    warps[w].rotation = draw() % kLanes;
    ready |= 1u << w;
  }
  for (;;) {
    if (ready == 0) {
      if (!releaseBarrier())
        return;
      for (unsigned w = 0; w < warpCount; ++w)
        if (warps[w].runnable)
          ready |= 1u << w;
      continue;
    }
    unsigned start = draw() % kLanes;
    unsigned w = (static_cast<unsigned>(std::countr_zero(
                      std::rotr(ready, static_cast<int>(start)))) +
                  start) %
                 kLanes;
    Warp &warp = warps[w];
    // Mostly one warp runs until it waits; sometimes another cuts in.
    warp.rotation = draw() % kLanes;
    runWarp(w);
    if (failed)
      return;
    if (!(warp.fresh | warp.runnable))
      ready &= ~(1u << w);
  }
}

/// Runs lanes of a warp until one comes back to the scheduler.
void Grid::runWarp(unsigned w) {
  runningWarp = w;
  running = &chooseLane(w);
  onhost_switch(&scheduler, running->stackPointer);
  running = nullptr;
}

/// A lane that can go on, or that starts now.
Fiber &Grid::chooseLane(unsigned w) {
  Warp &warp = warps[w];
  uint32_t lanes = warp.runnable ? warp.runnable : warp.fresh;
  unsigned lane = (static_cast<unsigned>(std::countr_zero(
                       std::rotr(lanes, static_cast<int>(warp.rotation)))) +
                   warp.rotation) %
                  kLanes;
  unsigned thread = w * kLanes + lane;
  if (warp.runnable)
    return *ofThread[thread];
  Fiber &fiber = *idle.back();
  idle.pop_back();
  warp.fresh &= ~(1u << lane);
  warp.runnable |= 1u << lane;
  setThread(fiber, thread);
  if (!fiber.entered)
    prepare(fiber);
  return fiber;
}

/// When no thread can go on: opens the barrier if all are there. False: the
/// block is done, or stuck, which is reported.
bool Grid::releaseBarrier() {
  unsigned waiting = 0, done = 0;
  const Fiber *one = nullptr;
  bool samePlace = true;
  for (unsigned t = 0; t < threadCount; ++t) {
    const Warp &warp = warps[t / kLanes];
    uint32_t bit = 1u << t % kLanes;
    done += (warp.done & bit) != 0;
    if (!(warp.atBarrier & bit))
      continue;
    ++waiting;
    const Fiber *fiber = ofThread[t];
    if (one && (one->barrierLine != fiber->barrierLine ||
                std::strcmp(one->barrierFile, fiber->barrierFile) != 0))
      samePlace = false;
    one = fiber;
  }
  if (done == threadCount)
    return false;
  if (waiting == threadCount && samePlace) {
    ++barriers;
    for (unsigned w = 0; w < warpCount; ++w) {
      warps[w].atBarrier = 0;
      warps[w].runnable = warps[w].lanes;
      warps[w].rotation = draw() % kLanes;
    }
    return true;
  }
  describeStuck();
  failed = true;
  for (Fiber &fiber : fibers)
    fiber.entered = false;
  return false;
}

void Grid::describeStuck() {
  unsigned done = 0, atBarrier = 0, inExchange = 0;
  std::string places;
  for (unsigned t = 0; t < threadCount; ++t) {
    const Warp &warp = warps[t / kLanes];
    uint32_t bit = 1u << t % kLanes;
    done += (warp.done & bit) != 0;
    std::string place;
    if (warp.atBarrier & bit) {
      ++atBarrier;
      place = std::string("a barrier at ") + ofThread[t]->barrierFile + ":" +
              std::to_string(ofThread[t]->barrierLine);
    } else if (warp.waiting & bit) {
      ++inExchange;
      const WarpWait &wait = ofThread[t]->wait;
      char mask[16];
      std::snprintf(mask, sizeof mask, "0x%08x", wait.mask);
      place = std::string("an exchange among lanes ") + mask + " at " +
              wait.file + ":" + std::to_string(wait.line);
    }
    if (!place.empty() && places.find(place) == std::string::npos &&
        places.size() < 600)
      places += "; thread " + std::to_string(t) + " is at " + place;
  }
  shadow().report("kernel " + launch->name + ", block " + text(blockIndex) +
                      ": not all threads meet: of " +
                      std::to_string(threadCount) + ", " +
                      std::to_string(atBarrier) + " wait at a barrier, " +
                      std::to_string(inExchange) + " in an exchange, " +
                      std::to_string(done) + " have ended" + places,
                  "stuck" + launch->name);
}

void Grid::barrier(const char *file, int line) {
  Outside outside(*this);
  running->barrierFile = file;
  running->barrierLine = line;
  Warp &warp = warps[runningWarp];
  uint32_t bit = 1u << running->thread % kLanes;
  warp.runnable &= ~bit;
  warp.atBarrier |= bit;
  yield();
}

uint64_t Grid::exchange(const WarpWait &wait) {
  Outside outside(*this);
  Warp &warp = warps[runningWarp];
  Fiber &fiber = *running;
  uint32_t bit = 1u << fiber.thread % kLanes;
  fiber.wait = wait;
  warp.waiting |= bit;
  if (!(wait.mask & bit))
    fail("a lane outside of the mask of its exchange at " +
         std::string(wait.file) + ":" + std::to_string(wait.line));
  if ((warp.waiting & wait.mask) == wait.mask) {
    finishExchange(warp, runningWarp, fiber.wait);
    if (!(warp.waiting & bit))
      return fiber.wait.value;
  }
  warp.runnable &= ~bit;
  yield();
  return fiber.wait.value;
}

void Grid::finishExchange(Warp &warp, unsigned w, const WarpWait &wait) {
  std::array<WarpWait *, kLanes> lanes = {};
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!(wait.mask & 1u << lane))
      continue;
    WarpWait &other = ofThread[w * kLanes + lane]->wait;
    // Another exchange: this one waits on, for ever if nothing changes.
    if (other.kind != wait.kind || other.mask != wait.mask ||
        other.line != wait.line ||
        (other.file != wait.file && std::strcmp(other.file, wait.file) != 0))
      return;
    lanes[lane] = &other;
  }
  uint32_t mask = wait.mask;
  if (wait.kind == Exchange::Sync)
    ++syncs[w];
  std::string problem = completeExchange(lanes, wait.kind);
  if (!problem.empty())
    fail(problem + " at " + wait.file + ":" + std::to_string(wait.line));
  warp.waiting &= ~mask;
  warp.runnable |= mask;
}

uint32_t Grid::liveLanes() const {
  const Warp &warp = warps[runningWarp];
  return warp.lanes & ~warp.done;
}

std::string Grid::where() const {
  return "kernel " + launch->name + ", block " + text(blockIndex) +
         ", thread " + text(running->index);
}

void Grid::fail(const std::string &what) {
  inKernel = false;
  shadow().report(where() + ": " + what, launch->name + what);
  failed = true;
  for (Fiber &fiber : fibers)
    fiber.entered = false;
  yield();
  std::abort(); // Nothing goes back to a fiber that was given up.
}

char *Grid::dynamicShared() { return shared.dynamicBegin(); }

Moment Grid::moment() const {
  return {serial, barriers, syncs[runningWarp], running->thread};
}

void Grid::access(uintptr_t address, size_t bytes, bool isWrite) {
  Outside outside(*this);
  touch(address, bytes, isWrite);
}

void Grid::touch(uintptr_t address, size_t bytes, bool isWrite) {
  // Locals of the fibers.
  if (address - stacks < kMostThreads * kStack)
    return;
  if (address % 16 != 0 && bytes == 16)
    fail(std::string(isWrite ? "stores" : "loads") +
         " 16 bytes at an address that is not a multiple of 16: " +
         shadow().describe(address));
  switch (shared.access(address, bytes, isWrite, moment())) {
  case SharedShadow::Verdict::Fine:
    return;
  case SharedShadow::Verdict::Race:
    shadow().report(where() + (isWrite ? " writes" : " reads") +
                        " shared memory that thread " +
                        std::to_string(shared.other()) +
                        " of the block touches; no barrier lies between",
                    "shared race" + launch->name);
    return;
  case SharedShadow::Verdict::Unwritten:
    shadow().report(where() + " reads shared memory never written",
                    "shared unwritten" + launch->name);
    return;
  case SharedShadow::Verdict::Outside:
    fail("goes beyond the " + std::to_string(launch->sharedBytes) +
         " bytes of dynamic shared memory");
  case SharedShadow::Verdict::NotShared:
    break;
  }
  if (isHarmless(address, bytes))
    return;
  bool fine = isWrite ? shadow().writeInKernel(address, bytes, blockNumber)
                      : shadow().readInKernel(address, bytes, blockNumber);
  if (!fine)
    fail(isWrite ? "illegal store" : "illegal load");
}

void Grid::accessRange(const void *pointer, size_t bytes, bool isWrite) {
  Outside outside(*this);
  auto address = reinterpret_cast<uintptr_t>(pointer);
  // Pieces that no vector load would be: alignment is not asked for.
  for (size_t done = 0; done < bytes; done += 8)
    touch(address + done, std::min<size_t>(8, bytes - done), isWrite);
}

/// The arguments, and data of libraries: constants and device variables.
bool Grid::isHarmless(uintptr_t address, size_t bytes) {
  auto closure = reinterpret_cast<uintptr_t>(launch->closure);
  if (address - closure < launch->closureBytes)
    return true;
  constexpr uintptr_t kPage = 4096;
  if (address / kPage == harmless)
    return true;
  if (shadow().find(address))
    return false;
  struct Query {
    uintptr_t begin, end;
    bool found;
  } query{address, address + bytes, false};
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *data) {
        auto &q = *static_cast<Query *>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr) &header = info->dlpi_phdr[i];
          uintptr_t begin = info->dlpi_addr + header.p_vaddr;
          if (header.p_type == PT_LOAD && q.begin >= begin &&
              q.end <= begin + header.p_memsz)
            q.found = true;
        }
        return q.found ? 1 : 0;
      },
      &query);
  if (query.found)
    harmless = address / kPage;
  return query.found;
}

uint64_t Grid::atomic(int kind, int type, void *address, uint64_t value,
                      uint64_t compare) {
  Outside outside(*this);
  size_t bytes = type == 2 || type == 4 ? 8 : 4;
  auto at = reinterpret_cast<uintptr_t>(address);
  if (at % bytes != 0)
    fail("an atomic at an address that is not a multiple of its size");
  Moment now = moment();
  // Atomics on shared memory are ordered among themselves: not compared.
  if (shared.probe(at, bytes, now) == SharedShadow::Verdict::NotShared &&
      !isHarmless(at, bytes)) {
    shadow().blocksOrdered();
    if (!shadow().read(address, bytes) || !shadow().write(address, bytes))
      fail("illegal atomic");
  }
  uint64_t old = 0;
  std::memcpy(&old, address, bytes);
  auto apply = [&](auto zero) {
    using T = decltype(zero);
    T was, with, result;
    std::memcpy(&was, &old, sizeof(T));
    std::memcpy(&with, &value, sizeof(T));
    T expected;
    std::memcpy(&expected, &compare, sizeof(T));
    result = was;
    switch (kind) {
    case 0:
      result = static_cast<T>(was + with);
      break;
    case 1:
      result = std::min(was, with);
      break;
    case 2:
      result = std::max(was, with);
      break;
    case 5:
      result = with;
      break;
    case 6:
      result = was == expected ? with : was;
      break;
    default:
      if constexpr (std::is_integral_v<T>)
        result = kind == 3 ? was & with : was | with;
    }
    std::memcpy(address, &result, sizeof(T));
  };
  switch (type) {
  case 0:
    apply(int32_t());
    break;
  case 1:
    apply(uint32_t());
    break;
  case 2:
    apply(uint64_t());
    break;
  case 3:
    apply(float());
    break;
  default:
    apply(double());
  }
  return old;
}

} // namespace ciuic::onhost
