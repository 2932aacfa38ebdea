#pragma once
#include <span>
#include <vector>

#include <lockstep/comm/operation.hpp>

namespace lockstep {

/// Room for the addresses that perform() collects, kept by its caller so that nothing is allocated.
struct CollectiveScratch {
  std::vector<const void*> sources;
  std::vector<void*> targets;
};

/// Carries out one collective whose ranks' tensors all lie within reach, on the host: calls[r] is
/// rank r's. The calls fit together (equal fingerprints). Reductions go in rank order: same bits in
/// every run. Throws CommError naming the ranks if an all_to_all_v sends more or fewer elements
/// than its receiver expects; nothing is written then.
void perform(std::span<const Operation* const> calls, CollectiveScratch& scratch);

}  // namespace lockstep
