// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/individual.hpp>

namespace tw::search {

const char* name_of(TrialState state) noexcept {
  switch (state) {
    case TrialState::running: return "running";
    case TrialState::complete: return "complete";
    case TrialState::pruned: return "pruned";
    case TrialState::failed: return "failed";
    case TrialState::infeasible: return "infeasible";
  }
  return "";
}

}  // namespace tw::search
