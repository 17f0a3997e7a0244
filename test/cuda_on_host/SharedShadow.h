//===- SharedShadow.h - Accesses of shared memory ---------------*- C++ -*-===//
//
// The static sections of shared arrays and the dynamic shared memory, with a
// cell for every two bytes. Within a block two threads may touch a cell, one
// of them writing, if a barrier lies between, or, for threads of one warp, a
// __syncwarp. Shuffles order nothing.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TEST_CUDA_ON_HOST_SHAREDSHADOW_H
#define CIUIC_TEST_CUDA_ON_HOST_SHAREDSHADOW_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ciuic::onhost {

/// A moment of a thread between barriers.
struct Moment {
  uint32_t block = 0;   ///< Serial of the block, never 0.
  uint32_t barrier = 0; ///< Barriers of the block so far.
  uint32_t sync = 0;    ///< __syncwarps of the warp so far.
  uint32_t thread = 0;
};

class SharedShadow {
public:
  enum class Verdict { NotShared, Fine, Race, Unwritten, Outside };

  SharedShadow();

  /// Dynamic shared memory of `bytes` at `dynamicBegin()`.
  void startBlock(size_t bytes);
  char *dynamicBegin() { return dynamic; }

  Verdict access(uintptr_t address, size_t bytes, bool isWrite,
                 const Moment &now);
  /// Whether a write would be a race; marks nothing.
  Verdict probe(uintptr_t address, size_t bytes, const Moment &now);
  /// The thread that the last race was with.
  uint32_t other() const { return otherThread; }

  /// The static section of a library; from any thread.
  static void addSection(const char *begin, const char *end);

private:
  struct Cell {
    Moment write;
    Moment read;
    bool manyReaders = false; ///< Of several warps since `read.barrier`.
    bool warpReaders = false; ///< Of several lanes of one warp.
  };
  struct Section {
    uintptr_t begin = 0;
    size_t bytes = 0;
    std::unique_ptr<Cell[]> cells;
  };
  Section *find(uintptr_t address);
  bool unordered(const Moment &then, const Moment &now);

  char *dynamic = nullptr;
  size_t dynamicBytes = 0;
  std::vector<Section> sections; ///< The first is the dynamic memory.
  Section *last = nullptr;
  uint32_t otherThread = 0;
  size_t knownSections = 0;
};

} // namespace ciuic::onhost

#endif // CIUIC_TEST_CUDA_ON_HOST_SHAREDSHADOW_H
