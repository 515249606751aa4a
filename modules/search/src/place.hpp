// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/evolution/space.hpp>
#include <tw/search/options.hpp>

#include "layout.hpp"

namespace tw::search {

/// A worker's place in a search. References are borrowed.
struct Place {
  const Space& space;
  const SearchOptions& options;
  const Layout& layout;
  int worker;
  int island;
};

}  // namespace tw::search
