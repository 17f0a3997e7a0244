//===- Graph.cpp - Captured streams -----------------------------*- C++ -*-===//
#include "test/cuda_on_host/Graph.h"

using namespace ciuic::onhost;

namespace ciuic::onhost {

size_t CaptureSession::indexOf(CUstream_st &stream) {
  for (size_t i = 0; i < streams.size(); ++i)
    if (streams[i] == &stream)
      return i;
  streams.push_back(&stream);
  return streams.size() - 1;
}

void CaptureSession::add(CUstream_st &stream, Step step) {
  CapturedStep one;
  one.stream = indexOf(stream);
  one.step = std::move(step);
  steps.push_back(std::move(one));
}

void CaptureSession::record(CUstream_st &stream, const Recording *recording) {
  CapturedStep one;
  one.kind = CapturedStep::Kind::Record;
  one.stream = indexOf(stream);
  one.link = links.size();
  links[recording] = one.link;
  steps.push_back(std::move(one));
}

void CaptureSession::wait(CUstream_st &stream, const Recording *recording) {
  CapturedStep one;
  one.kind = CapturedStep::Kind::Wait;
  one.stream = indexOf(stream);
  one.link = links.at(recording);
  steps.push_back(std::move(one));
}

bool CaptureSession::isJoined() const {
  // From the end: a stream is joined from its last record on that a joined
  // one waits for.
  std::vector<bool> joined(streams.size(), false);
  std::vector<bool> wanted(links.size(), false);
  joined[0] = true;
  for (size_t i = steps.size(); i-- > 0;) {
    const CapturedStep &one = steps[i];
    if (one.kind == CapturedStep::Kind::Record && wanted[one.link])
      joined[one.stream] = true;
    else if (!joined[one.stream] && one.kind != CapturedStep::Kind::Record)
      return false;
    else if (one.kind == CapturedStep::Kind::Wait)
      wanted[one.link] = true;
  }
  return true;
}

} // namespace ciuic::onhost

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  CIUIC_ONHOST_CALL(cudaStreamBeginCapture);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  CUstream_st *stream = machine.find(handle);
  if (!stream || handle == nullptr)
    return remember(cudaErrorInvalidValue);
  if (stream->capture)
    return remember(cudaErrorStreamCaptureUnsupported);
  stream->capture = std::make_shared<CaptureSession>();
  stream->capture->indexOf(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
  CIUIC_ONHOST_CALL(cudaStreamEndCapture);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  *graph = nullptr;
  CUstream_st *stream = machine.find(handle);
  if (!stream || !stream->capture)
    return remember(cudaErrorStreamCaptureUnmatched);
  std::shared_ptr<CaptureSession> session = stream->capture;
  if (session->streams[0] != stream)
    return remember(cudaErrorStreamCaptureUnmatched);
  for (CUstream_st *one : session->streams)
    one->capture = nullptr;
  if (session->invalid)
    return remember(cudaErrorStreamCaptureInvalidated);
  if (!session->isJoined())
    return remember(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::move(session->steps), session->streams.size(),
                          session->links.size()};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle,
                                  cudaStreamCaptureStatus *status) {
  CIUIC_ONHOST_CALL(cudaStreamIsCapturing);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  CUstream_st *stream = machine.find(handle);
  if (!stream)
    return remember(cudaErrorInvalidResourceHandle);
  *status = !stream->capture           ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long) {
  CIUIC_ONHOST_CALL(cudaGraphInstantiate);
  if (!graph)
    return remember(cudaErrorInvalidValue);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  auto made = std::make_unique<CUgraphExec_st>();
  made->graph = *graph;
  made->device = currentDevice();
  for (size_t i = 0; i < graph->streams; ++i)
    made->streams.push_back(
        machine.createStream(currentDevice(), cudaStreamNonBlocking));
  *exec = made.release();
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  CIUIC_ONHOST_CALL(cudaGraphUpload);
  return exec ? cudaSuccess : remember(cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  CIUIC_ONHOST_CALL(cudaGraphLaunch);
  Machine &machine = Machine::get();
  if (!exec)
    return remember(cudaErrorInvalidValue);
  std::lock_guard lock(machine.mutex);
  CUstream_st *stream = machine.find(handle);
  if (!stream)
    return remember(cudaErrorInvalidResourceHandle);
  // So that all before this call comes before the graph.
  machine.enqueue(*stream, Step());
  for (CUstream_st *own : exec->streams)
    machine.link(*stream, *own);
  std::vector<std::shared_ptr<Recording>> links(exec->graph.links);
  for (auto &link : links)
    link = std::make_shared<Recording>();
  for (const CapturedStep &one : exec->graph.steps) {
    CUstream_st &own = *exec->streams[one.stream];
    Step step = one.step;
    if (one.kind == CapturedStep::Kind::Record) {
      step.order = [link = links[one.link]](CUstream_st &on) {
        link->clock = on.clock;
        link->done = true;
      };
    } else if (one.kind == CapturedStep::Kind::Wait) {
      step.ready = [link = links[one.link]] { return link->done; };
      step.order = [link = links[one.link]](CUstream_st &on) {
        join(on.clock, link->clock);
      };
      step.waits = [] { return std::string("another branch of its graph"); };
    }
    machine.append(own, std::move(step));
  }
  for (CUstream_st *own : exec->streams)
    machine.link(*own, *stream);
  machine.changed.notify_all();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  CIUIC_ONHOST_CALL(cudaGraphDestroy);
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  CIUIC_ONHOST_CALL(cudaGraphExecDestroy);
  if (!exec)
    return remember(cudaErrorInvalidValue);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  for (CUstream_st *own : exec->streams)
    machine.destroyStream(own);
  delete exec;
  return cudaSuccess;
}
