// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/automatic.hpp>

#include <tw/evolution/breeding.hpp>

namespace tw::search {

std::unique_ptr<Propagator> automatic(const Space& space, int64_t /*evaluations*/, uint64_t /*seed*/, int /*worker*/, int /*workers*/) {
  return std::make_unique<Breeder>(space);
}

}  // namespace tw::search
