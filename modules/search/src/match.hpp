// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::search {

/// A function for each type of a variant, for std::visit.
template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};

}  // namespace tw::search
