//===- HeldSignals.h - Code that no signal may interrupt --------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_BASE_HELDSIGNALS_H
#define CIUIC_RUNTIME_BASE_HELDSIGNALS_H

#include <csignal>

namespace ciuic::rt {

/// While it lives no signal interrupts the calling thread. One that is sent to
/// the process goes to another thread; where there is none, or it was meant for
/// this one, it is delivered afterwards. What the thread brings on itself, as a
/// fault does, is not held back: the process would end without a word.
class HeldSignals {
public:
  HeldSignals() {
    sigset_t held;
    sigfillset(&held);
    for (int own : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP})
      sigdelset(&held, own);
    pthread_sigmask(SIG_BLOCK, &held, &before);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  HeldSignals(const HeldSignals &) = delete;
  HeldSignals &operator=(const HeldSignals &) = delete;

private:
  sigset_t before;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BASE_HELDSIGNALS_H
