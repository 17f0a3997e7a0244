//===- Graph.h - Captured streams -------------------------------*- C++ -*-===//
//
// A capture keeps the steps that streams would have got, in program order,
// with the events between them as numbered links. A launch enqueues them on
// streams of the graph's own, which start after the launching stream and end
// before it goes on.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TEST_CUDA_ON_HOST_GRAPH_H
#define CIUIC_TEST_CUDA_ON_HOST_GRAPH_H

#include "test/cuda_on_host/Machine.h"

namespace ciuic::onhost {

struct CapturedStep {
  enum class Kind { Step, Record, Wait };
  Kind kind = Kind::Step;
  size_t stream = 0; ///< Of the session's streams.
  Step step;
  size_t link = 0; ///< Of a Record, and of the Waits for it.
};

struct CaptureSession {
  std::vector<CUstream_st *> streams; ///< The first began the capture.
  std::vector<CapturedStep> steps;
  std::map<const Recording *, size_t> links;
  bool invalid = false;

  size_t indexOf(CUstream_st &stream);
  void add(CUstream_st &stream, Step step);
  void record(CUstream_st &stream, const Recording *recording);
  void wait(CUstream_st &stream, const Recording *recording);
  /// Every stream that was drawn in leads back to the first.
  bool isJoined() const;
};

} // namespace ciuic::onhost

struct CUgraph_st {
  std::vector<ciuic::onhost::CapturedStep> steps;
  size_t streams = 0;
  size_t links = 0;
};

struct CUgraphExec_st {
  CUgraph_st graph;
  int device = 0;
  std::vector<CUstream_st *> streams;
};

#endif // CIUIC_TEST_CUDA_ON_HOST_GRAPH_H
