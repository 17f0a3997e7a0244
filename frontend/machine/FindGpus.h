//===- FindGpus.h - The GPUs of the machine at hand -------------*- C++ -*-===//
#ifndef CIUIC_FRONTEND_MACHINE_FINDGPUS_H
#define CIUIC_FRONTEND_MACHINE_FINDGPUS_H

#include <cstdint>
#include <string>
#include <vector>

namespace ciuic::machine {

struct Gpu {
  std::string name;
  int64_t bytes = 0, used = 0;
};

/// What NVIDIA's management library says; none where there is no such library,
/// no driver or no GPU. Loaded when asked for: nothing is linked to it.
std::vector<Gpu> findGpus(const std::string &library);

} // namespace ciuic::machine

#endif // CIUIC_FRONTEND_MACHINE_FINDGPUS_H
