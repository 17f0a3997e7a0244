//===- Nccl.cpp - Collectives -----------------------------------*- C++ -*-===//
//
// A collective is two steps of each rank's stream. The first enters: what the
// rank sends is copied aside, what it receives becomes garbage. The second
// waits until all ranks have entered, comes after all that they had done by
// then, and receives. Sums go around a ring and are rounded at every rank, as
// they may be on devices.
//
//===----------------------------------------------------------------------===//
#include "test/cuda_on_host/Collective.h"

#include <algorithm>
#include <atomic>
#include <cstring>

using namespace ciuic::onhost;

/// One rank's part; steps keep it while they need it.
struct ncclComm {
  struct Clique {
    std::string id;
    size_t number = 0;
    int ranks = 0;
    std::vector<std::shared_ptr<ncclComm>> members; ///< Null: not joined yet.
    int joined = 0;
    std::map<uint64_t, Collective> collectives;
    std::vector<int> devices; ///< Sorted.
  };
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int device = 0;
  uint64_t next = 0; ///< Number of its next collective.
  std::atomic<bool> aborted = false;
  ncclResult_t error = ncclSuccess;
};

namespace {

using Clique = ncclComm::Clique;
using CommPointer = std::shared_ptr<ncclComm>;

/// All guarded by the machine's mutex.
struct World {
  std::map<std::string, std::shared_ptr<Clique>> cliques;
  std::map<ncclComm_t, CommPointer> comms;
  /// For the devices of a communicator: the order in which collectives were
  /// entered, and how far each device has come.
  struct Order {
    std::vector<std::pair<size_t, uint64_t>> all; ///< Clique and number.
    std::vector<std::string> names;
    std::map<int, size_t> done;
  };
  std::map<std::vector<int>, Order> orders;
  /// A collective of a device that changes places with its next one.
  std::map<int, std::function<void()>> held;
  uint64_t ids = 0;
  size_t cliqueCount = 0;
};

World &world() {
  static World *one = new World;
  return *one;
}

struct Group {
  int depth = 0;
  std::vector<std::function<ncclResult_t()>> calls;
  std::vector<std::function<ncclResult_t()>> waits;
};
thread_local Group group;

#define CALL(function)                                                         \
  do {                                                                         \
    int status_ = 0;                                                           \
    if (callFails(#function, status_))                                         \
      return static_cast<ncclResult_t>(status_);                               \
  } while (false)

//===----------------------------------------------------------------------===//
// A rank's part
//===----------------------------------------------------------------------===//

struct Part {
  CommPointer comm;
  Signature signature;
  const char *send;
  char *receive;
  std::string name;
  uint64_t number = 0;
  TaskId task = 0;

  size_t ranks() const { return static_cast<size_t>(comm->clique->ranks); }
  size_t chunk() const { return signature.count * sizeOf(signature.type); }
  size_t sendBytes() const {
    return signature.kind == Kind::ReduceScatter ? chunk() * ranks() : chunk();
  }
  size_t receiveBytes() const {
    return signature.kind == Kind::AllGather ? chunk() * ranks() : chunk();
  }
  /// With the machine's mutex.
  Collective *find() const {
    auto at = comm->clique->collectives.find(number);
    return at == comm->clique->collectives.end() ? nullptr : &at->second;
  }
};

using PartPointer = std::shared_ptr<Part>;

void report(const std::string &text, const std::string &key = "") {
  std::lock_guard memory(shadow().mutex);
  shadow().report(text, key);
}

void enter(Part &part, CUstream_st &stream) {
  std::vector<char> sent(part.sendBytes());
  bool fine = true;
  Machine::get().work(stream, part.name, [&] {
    part.task = shadow().current();
    fine = shadow().read(part.send, sent.size()) &&
           shadow().write(part.receive, part.receiveBytes());
    if (!fine)
      return;
    std::copy_n(part.send, sent.size(), sent.begin());
    std::memset(part.receive, 0xff, part.receiveBytes());
  });
  if (!fine)
    return Machine::get().poison(stream.device, cudaErrorIllegalAddress);
  std::lock_guard lock(Machine::get().mutex);
  Collective *c = part.find();
  if (!c)
    return;
  Entry &entry = c->entries[static_cast<size_t>(part.comm->rank)];
  entry.sent = std::move(sent);
  entry.arrived = true;
  ++c->arrivals;
}

void leave(Part &part, CUstream_st &stream) {
  Collective *c;
  {
    std::lock_guard lock(Machine::get().mutex);
    c = part.find();
  }
  if (!c || part.comm->aborted)
    return;
  {
    std::lock_guard memory(shadow().mutex);
    shadow().resume(part.task, stream.clock, stream.device);
    shadow().write(part.receive, part.receiveBytes());
    shadow().end();
    auto rank = static_cast<size_t>(part.comm->rank);
    size_t ranks = part.ranks(), count = part.signature.count;
    if (c->broken)
      ; // What would come is anyone's guess: garbage stays.
    else if (part.signature.kind == Kind::AllGather)
      for (size_t r = 0; r < ranks; ++r)
        std::copy(c->entries[r].sent.begin(), c->entries[r].sent.end(),
                  part.receive + r * part.chunk());
    else if (part.signature.kind == Kind::ReduceScatter)
      sumAroundRing(*c, rank * count, count, rank + 1, part.receive);
    else
      for (size_t r = 0; r < ranks; ++r) {
        size_t begin = count * r / ranks, end = count * (r + 1) / ranks;
        sumAroundRing(*c, begin, end - begin, r + 1,
                      part.receive + begin * sizeOf(part.signature.type));
      }
  }
  std::lock_guard lock(Machine::get().mutex);
  if (++c->left == part.ranks())
    part.comm->clique->collectives.erase(part.number);
}

/// With the machine's mutex: the rank has called, in its order of calls.
void checkCall(Part &part) {
  Clique &clique = *part.comm->clique;
  auto [at, isNew] = clique.collectives.try_emplace(part.number);
  Collective &c = at->second;
  if (isNew) {
    c.signature = part.signature;
    c.first = part.comm->rank;
    c.entries.resize(part.ranks());
  } else if (!(c.signature == part.signature)) {
    c.broken = true;
    report("collectives differ: number " + std::to_string(part.number) +
           " of communicator " + std::to_string(clique.number) + " is " +
           part.signature.str() + " on rank " +
           std::to_string(part.comm->rank) + " (" + part.name + ") and " +
           c.signature.str() + " on rank " + std::to_string(c.first));
  }
  World::Order &order = world().orders[clique.devices];
  size_t position = order.done[part.comm->device]++;
  std::pair<size_t, uint64_t> mine{clique.number, part.number};
  if (position == order.all.size()) {
    order.all.push_back(mine);
    order.names.push_back(part.name);
  } else if (order.all[position] != mine) {
    report("collectives in another order: rank " +
               std::to_string(part.comm->rank) + " enters " + part.name +
               " of communicator " + std::to_string(clique.number) +
               " where another rank entered " + order.names[position] +
               " of communicator " + std::to_string(order.all[position].first),
           "order" + std::to_string(clique.number));
  }
}

/// With the machine's mutex.
void append(const Part &what, CUstream_st &stream) {
  Machine &machine = Machine::get();
  Step step;
  step.name = what.name;
  step.expand = [what](CUstream_st &on) {
    Machine &machine = Machine::get();
    auto part = std::make_shared<Part>(what);
    part->number = part->comm->next++;
    if (strikes(Fault::ShrinkCollective) && part->signature.count > 0)
      --part->signature.count;
    bool never = strikes(Fault::NeverEnter);
    checkCall(*part);
    Snapshot host = machine.hostSnapshot();
    Step enterStep;
    enterStep.name = part->name;
    enterStep.host = host;
    if (never)
      enterStep.ready = [part] { return part->comm->aborted.load(); };
    enterStep.waits = [] { return std::string("nothing, by order of a test"); };
    enterStep.order = [part](CUstream_st &stream) {
      if (Collective *c = part->find())
        c->entries[static_cast<size_t>(part->comm->rank)].clock = stream.clock;
    };
    enterStep.run = [part](CUstream_st &stream) {
      if (!part->comm->aborted)
        enter(*part, stream);
    };
    machine.append(on, std::move(enterStep));
    Step leaveStep;
    leaveStep.name = part->name;
    leaveStep.ready = [part] {
      Collective *c = part->find();
      return part->comm->aborted.load() || !c || c->arrivals == part->ranks();
    };
    leaveStep.order = [part](CUstream_st &stream) {
      Collective *c = part->find();
      if (!c || part->comm->aborted)
        return;
      for (const Entry &entry : c->entries)
        join(stream.clock, entry.clock);
    };
    leaveStep.run = [part](CUstream_st &stream) { leave(*part, stream); };
    leaveStep.waits = [part] {
      std::string text = part->name + " of communicator " +
                         std::to_string(part->comm->clique->number) +
                         ", which these ranks have not entered:";
      if (Collective *c = part->find())
        for (size_t r = 0; r < c->entries.size(); ++r)
          if (!c->entries[r].arrived)
            text += " " + std::to_string(r);
      return text;
    };
    machine.append(on, std::move(leaveStep));
  };
  machine.enqueue(stream, std::move(step));
}

ncclResult_t enqueue(Kind kind, const void *send, void *receive, size_t count,
                     ncclDataType_t type, ncclRedOp_t op, ncclComm_t handle,
                     cudaStream_t streamHandle) {
  auto call = [=]() -> ncclResult_t {
    Machine &machine = Machine::get();
    std::lock_guard lock(machine.mutex);
    auto at = world().comms.find(handle);
    if (at == world().comms.end())
      return ncclInvalidArgument;
    CommPointer comm = at->second;
    CUstream_st *stream = machine.find(streamHandle);
    if (!stream || comm->aborted)
      return ncclInvalidUsage;
    if (stream->device != comm->device) {
      report("a collective of device " + std::to_string(comm->device) +
             " on a stream of device " + std::to_string(stream->device));
      return ncclInvalidUsage;
    }
    bool sums = kind != Kind::AllGather;
    bool known = type == ncclFloat32 || type == ncclFloat16 ||
                 type == ncclBfloat16 || type == ncclFloat64 ||
                 type == ncclInt32;
    if (sums && (!known || (op != ncclSum && op != ncclAvg)))
      return ncclInvalidArgument;
    if (count == 0)
      return ncclSuccess; // Nothing to do, and nothing is entered.
    Part part{comm,
              {kind, count, type, op},
              static_cast<const char *>(send),
              static_cast<char *>(receive),
              stream->label.empty() ? nameOf(kind) : stream->label};
    auto &held = world().held;
    if (auto other = held.find(comm->device); other != held.end()) {
      append(part, *stream);
      std::exchange(other->second, nullptr)();
      held.erase(comm->device);
      return ncclSuccess;
    }
    if (strikes(Fault::SwapCollectives)) {
      held[comm->device] = [part, stream] { append(part, *stream); };
      return ncclSuccess;
    }
    append(part, *stream);
    return ncclSuccess;
  };
  if (group.depth == 0)
    return call();
  group.calls.push_back(call);
  return ncclSuccess;
}

/// Joins `rank`; the returned call waits for the others.
ncclResult_t join(ncclComm_t *comm, int ranks, const ncclUniqueId &id, int rank,
                  int device) {
  if (!comm || ranks < 1 || rank < 0 || rank >= ranks)
    return ncclInvalidArgument;
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  std::string key(id.internal, NCCL_UNIQUE_ID_BYTES);
  std::shared_ptr<Clique> &clique = world().cliques[key];
  if (!clique) {
    clique = std::make_shared<Clique>();
    clique->id = key;
    clique->number = world().cliqueCount++;
    clique->ranks = ranks;
    clique->members.resize(static_cast<size_t>(ranks));
  }
  auto r = static_cast<size_t>(rank);
  if (clique->ranks != ranks || clique->members[r])
    return ncclInvalidUsage;
  for (int other : clique->devices)
    if (other == device)
      return ncclInvalidUsage; // Two ranks of one device.
  auto made = std::make_shared<ncclComm>();
  made->clique = clique;
  made->rank = rank;
  made->device = device;
  clique->members[r] = made;
  clique->devices.push_back(device);
  std::sort(clique->devices.begin(), clique->devices.end());
  ++clique->joined;
  world().comms[made.get()] = made;
  *comm = made.get();
  machine.changed.notify_all();
  return ncclSuccess;
}

ncclResult_t waitForAll(ncclComm_t *comm) {
  Machine &machine = Machine::get();
  std::unique_lock lock(machine.mutex);
  auto at = world().comms.find(*comm);
  if (at == world().comms.end())
    return ncclInvalidArgument;
  std::shared_ptr<Clique> clique = at->second->clique;
  for (Waiting waiting; waiting.seconds() <= machine.settings().stuckSeconds;)
    if (machine.changed.wait_for(lock, std::chrono::milliseconds(1), [&] {
          return clique->joined == clique->ranks;
        }))
      return ncclSuccess;
  report("stuck: " + std::to_string(clique->joined) + " of " +
         std::to_string(clique->ranks) + " ranks joined a communicator");
  return ncclSystemError;
}

} // namespace

namespace ciuic::onhost {

void forgetCommunicators() {
  auto ids = world().ids;
  world() = World();
  world().ids = ids;
}

} // namespace ciuic::onhost

ncclResult_t ncclGetVersion(int *version) {
  CALL(ncclGetVersion);
  *version = Machine::get().settings().ncclVersion;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  switch (result) {
  case ncclSuccess:
    return "no error";
  case ncclUnhandledCudaError:
    return "unhandled cuda error";
  case ncclSystemError:
    return "unhandled system error";
  case ncclInternalError:
    return "internal error";
  case ncclInvalidArgument:
    return "invalid argument";
  case ncclInvalidUsage:
    return "invalid usage";
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  case ncclInProgress:
    return "NCCL operation in progress";
  default:
    return "unknown result code";
  }
}

const char *ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  CALL(ncclGetUniqueId);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  std::memset(id, 0, sizeof *id);
  uint64_t number = ++world().ids;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks,
                                    ncclUniqueId id, int rank, ncclConfig_t *) {
  CALL(ncclCommInitRank);
  ncclResult_t result = join(comm, ranks, id, rank, currentDevice());
  if (result != ncclSuccess)
    return result;
  if (group.depth == 0)
    return waitForAll(comm);
  group.waits.push_back([comm] { return waitForAll(comm); });
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id,
                              int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices) {
  CALL(ncclCommInitAll);
  ncclUniqueId id;
  ncclResult_t result = ncclGetUniqueId(&id);
  for (int r = 0; r < count && result == ncclSuccess; ++r)
    result = join(comms + r, count, id, r, devices ? devices[r] : r);
  return result;
}

ncclResult_t ncclCommFinalize(ncclComm_t) {
  CALL(ncclCommFinalize);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  CALL(ncclCommDestroy);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  return world().comms.erase(handle) ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  CALL(ncclCommAbort);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  auto at = world().comms.find(handle);
  if (at == world().comms.end())
    return ncclInvalidArgument;
  at->second->aborted = true;
  world().comms.erase(at);
  machine.changed.notify_all();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *error) {
  CALL(ncclCommGetAsyncError);
  // "ncclAsyncError" is no function: its n-th query finds what a test wants.
  int found = 0;
  bool injected = callFails("ncclAsyncError", found);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  auto at = world().comms.find(handle);
  if (at == world().comms.end())
    return ncclInvalidArgument;
  if (injected)
    at->second->error = static_cast<ncclResult_t>(found);
  *error = at->second->error;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
  *count = comm->clique->ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device) {
  *device = comm->device;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  CALL(ncclGroupStart);
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  CALL(ncclGroupEnd);
  if (group.depth == 0)
    return ncclInvalidUsage;
  if (--group.depth > 0)
    return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (auto &call : std::exchange(group.calls, {}))
    if (result == ncclSuccess)
      result = call();
  for (auto &wait : std::exchange(group.waits, {}))
    if (result == ncclSuccess)
      result = wait();
  return result;
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  CALL(ncclAllGather);
  return enqueue(Kind::AllGather, send, receive, count, type, ncclSum, comm,
                 stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  CALL(ncclReduceScatter);
  return enqueue(Kind::ReduceScatter, send, receive, count, type, op, comm,
                 stream);
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  CALL(ncclAllReduce);
  return enqueue(Kind::AllReduce, send, receive, count, type, op, comm, stream);
}
