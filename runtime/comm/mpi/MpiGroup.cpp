//===- MpiGroup.cpp - Processes that talk by MPI --------------------------===//
//
// Never blocks in MPI: requests are tested, with growing pauses, so that a
// process that waits takes no processor from one that works, and a deadline
// and an abort of another process are seen.
//
//===----------------------------------------------------------------------===//
#include "runtime/comm/Frame.h"
#include "runtime/comm/mpi/MpiModule.h"

#include <chrono>
#include <cstring>
#include <limits>
#include <mpi.h>
#include <thread>
#include <unistd.h>

namespace ciuic::rt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int dataTag = 1, abortTag = 2;
/// Messages are counted in int.
constexpr uint64_t mostMessage = uint64_t(1) << 30;

Status mpiStatus(int result, const std::string &what) {
  if (result == MPI_SUCCESS)
    return {};
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(result, text, &length);
  return Status::machine(what + ": " + text);
}

class MpiGroup final : public ProcessGroup {
public:
  MpiGroup(int process, int processes, double timeout)
      : own(static_cast<uint32_t>(process)),
        count(static_cast<uint32_t>(processes)), timeout(timeout) {}

  ~MpiGroup() override {
    // All have the same end before them, or heard of it; where MPI itself
    // failed its end would wait for ever.
    if (finalizable) {
      MPI_Finalize();
      return;
    }
    std::fflush(nullptr);
  }

  uint32_t process() const override { return own; }
  uint32_t processes() const override { return count; }
  Status exchange(std::span<const std::span<const std::byte>> send,
                  std::span<const std::span<std::byte>> receive) override;
  Status check() override;
  void abort(const Status &status) override;

private:
  std::string name(int p) const { return "process " + std::to_string(p); }
  Status transfer(std::span<const std::span<const std::byte>> send,
                  std::span<const std::span<std::byte>> receive);
  Status complete(std::vector<MPI_Request> &requests);
  Status readAbort(bool &found);

  const uint32_t own, count;
  const double timeout;
  uint64_t sequence = 0;
  Status broken;
  bool finalizable = true;
  std::vector<MPI_Request> requests;
  std::vector<FrameHeader> headersIn, headersOut;
};

/// Whether another process has ended, and what it said.
Status MpiGroup::readAbort(bool &found) {
  int flag = 0;
  MPI_Status where;
  CIUIC_TRY(mpiStatus(
      MPI_Iprobe(MPI_ANY_SOURCE, abortTag, MPI_COMM_WORLD, &flag, &where),
      "cannot look for messages"));
  found = flag != 0;
  if (!found)
    return {};
  int bytes = 0;
  MPI_Get_count(&where, MPI_BYTE, &bytes);
  std::vector<std::byte> message(
      static_cast<size_t>(std::clamp<int>(bytes, 0, 1 << 20)));
  int source = where.MPI_SOURCE;
  CIUIC_TRY(mpiStatus(MPI_Recv(message.data(), static_cast<int>(message.size()),
                               MPI_BYTE, source, abortTag, MPI_COMM_WORLD,
                               MPI_STATUS_IGNORE),
                      "cannot receive from " + name(source)));
  FrameHeader header;
  if (message.size() < sizeof(header))
    return Status::machine(name(source) + " ended without saying why");
  std::memcpy(&header, message.data(), sizeof(header));
  if (!isAbort(header) || header.bytes > message.size() - sizeof(header))
    return Status::machine(name(source) + " ended without saying why");
  return abortOf(header, name(source),
                 std::string(reinterpret_cast<const char *>(message.data()) +
                                 sizeof(header),
                             header.bytes));
}

Status MpiGroup::complete(std::vector<MPI_Request> &pending) {
  auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(timeout));
  auto pause = std::chrono::microseconds(0);
  size_t left = pending.size();
  std::vector<int> indices(pending.size());
  while (left > 0) {
    int done = 0;
    CIUIC_TRY(
        mpiStatus(MPI_Testsome(static_cast<int>(pending.size()), pending.data(),
                               &done, indices.data(), MPI_STATUSES_IGNORE),
                  "exchange " + std::to_string(sequence) + " failed"));
    if (done == MPI_UNDEFINED)
      return {};
    if (done > 0) {
      left -= static_cast<size_t>(done);
      deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                    std::chrono::duration<double>(timeout));
      pause = std::chrono::microseconds(0);
      continue;
    }
    bool aborted = false;
    CIUIC_TRY(readAbort(aborted));
    if (Clock::now() > deadline)
      return Status::machine("a process gave no word in " +
                             std::to_string(static_cast<int64_t>(timeout)) +
                             " s, in exchange " + std::to_string(sequence));
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2 + std::chrono::microseconds(5),
                     std::chrono::microseconds(500));
  }
  return {};
}

Status MpiGroup::transfer(std::span<const std::span<const std::byte>> send,
                          std::span<const std::span<std::byte>> receive) {
  // Headers first: a message of another size than expected is an error that
  // leaves nothing to go on with.
  headersIn.assign(count, {});
  headersOut.assign(count, {});
  requests.clear();
  for (uint32_t p = 0; p < count; ++p) {
    if (p == own)
      continue;
    headersOut[p].sequence = sequence;
    headersOut[p].bytes = send[p].size();
    int peer = static_cast<int>(p);
    CIUIC_TRY(
        mpiStatus(MPI_Irecv(&headersIn[p], sizeof(FrameHeader), MPI_BYTE, peer,
                            dataTag, MPI_COMM_WORLD, &requests.emplace_back()),
                  "cannot receive from " + name(peer)));
    CIUIC_TRY(
        mpiStatus(MPI_Isend(&headersOut[p], sizeof(FrameHeader), MPI_BYTE, peer,
                            dataTag, MPI_COMM_WORLD, &requests.emplace_back()),
                  "cannot send to " + name(peer)));
  }
  CIUIC_TRY(complete(requests));
  for (uint32_t p = 0; p < count; ++p)
    if (p != own)
      CIUIC_TRY(checkData(headersIn[p], name(static_cast<int>(p)), sequence,
                          receive[p].size()));
  requests.clear();
  for (uint32_t p = 0; p < count; ++p) {
    if (p == own)
      continue;
    int peer = static_cast<int>(p);
    for (uint64_t at = 0; at < receive[p].size(); at += mostMessage)
      CIUIC_TRY(mpiStatus(MPI_Irecv(receive[p].data() + at,
                                    static_cast<int>(std::min<uint64_t>(
                                        mostMessage, receive[p].size() - at)),
                                    MPI_BYTE, peer, dataTag, MPI_COMM_WORLD,
                                    &requests.emplace_back()),
                          "cannot receive from " + name(peer)));
    for (uint64_t at = 0; at < send[p].size(); at += mostMessage)
      CIUIC_TRY(mpiStatus(MPI_Isend(send[p].data() + at,
                                    static_cast<int>(std::min<uint64_t>(
                                        mostMessage, send[p].size() - at)),
                                    MPI_BYTE, peer, dataTag, MPI_COMM_WORLD,
                                    &requests.emplace_back()),
                          "cannot send to " + name(peer)));
  }
  return complete(requests);
}

Status MpiGroup::exchange(std::span<const std::span<const std::byte>> send,
                          std::span<const std::span<std::byte>> receive) {
  if (!broken.ok())
    return Status(broken.code(), broken.str());
  if (send.size() != count || receive.size() != count ||
      send[own].size() != receive[own].size())
    return Status::invalid("an exchange of " + std::to_string(send.size()) +
                           " and " + std::to_string(receive.size()) +
                           " parts among " + std::to_string(count) +
                           " processes");
  if (!send[own].empty())
    std::memmove(receive[own].data(), send[own].data(), send[own].size());
  Status status = transfer(send, receive);
  ++sequence;
  if (!status.ok()) {
    broken = Status(status.code(), status.str());
    // Unfinished requests would keep MPI from ending.
    finalizable = false;
  }
  return status;
}

Status MpiGroup::check() {
  if (broken.ok()) {
    bool found = false;
    broken = readAbort(found);
  }
  if (broken.ok())
    return {};
  finalizable = false;
  return Status(broken.code(), broken.str());
}

void MpiGroup::abort(const Status &status) {
  if (status.ok() || !broken.ok())
    return;
  broken = Status(status.code(), status.str());
  finalizable = false;
  auto [header, text] = makeAbort(status, false);
  std::vector<std::byte> message(sizeof(header) + text.size());
  std::memcpy(message.data(), &header, sizeof(header));
  std::memcpy(message.data() + sizeof(header), text.data(), text.size());
  std::vector<MPI_Request> sends;
  for (uint32_t p = 0; p < count; ++p)
    if (p != own)
      MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_BYTE,
                static_cast<int>(p), abortTag, MPI_COMM_WORLD,
                &sends.emplace_back());
  // mpirun ends all processes when one ends in failure: the others get time to
  // say why.
  auto deadline = Clock::now() + std::chrono::seconds(3);
  int done = 0;
  do {
    MPI_Testall(static_cast<int>(sends.size()), sends.data(), &done,
                MPI_STATUSES_IGNORE);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (Clock::now() < deadline &&
           (!done || Clock::now() < deadline - std::chrono::seconds(2)));
}

} // namespace
} // namespace ciuic::rt

extern "C" __attribute__((visibility("default"))) ciuic::rt::ProcessGroup *
ciuic_join_by_mpi(uint32_t version, const ciuic::rt::JoinOptions &options,
                  ciuic::rt::Status &status) {
  using namespace ciuic::rt;
  if (version != mpiModuleVersion) {
    status =
        Status::machine("is of version " + std::to_string(mpiModuleVersion) +
                        ", expected " + std::to_string(version));
    return nullptr;
  }
  // Calls come from the main thread and from the one of the collectives, one
  // at a time.
  int provided = 0;
  status = mpiStatus(
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
      "cannot start MPI");
  if (!status.ok())
    return nullptr;
  if (provided < MPI_THREAD_SERIALIZED) {
    status = Status::machine("MPI allows no calls from several threads");
    return nullptr;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int process = 0, processes = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &process);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  return new MpiGroup(process, processes, options.exchangeTimeout);
}
