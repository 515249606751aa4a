// SPDX-License-Identifier: Apache-2.0
// What tests of whole searches have in common.
#pragma once
#include "mpi_test.hpp"

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/search/search.hpp>

namespace tw::testing {

inline search::Space line() { return {search::real("x", 0, 1)}; }
inline search::Space plane() { return {search::real("x", -5, 5), search::real("y", -5, 5)}; }

/// Of the plane: 0 at its least, in the middle.
inline search::Outcome bowl(const search::Configuration& c, search::Trial& /*trial*/) { return c.real("x") * c.real("x") + std::abs(c.real("y")); }

inline std::unique_ptr<search::Propagator> by_chance(const search::WorkerContext& seat) {
  return std::make_unique<search::Breeder>(seat.space, search::uniform_child());
}

/// This rank alone. A search there is a function of its seed; on several workers it depends on when messages arrive.
inline Communicator one_worker() { return world().split(world().rank(), 0); }

/// Of the running test, and not there yet. Collective over world().
inline std::filesystem::path fresh_folder(const std::string& name) {
  const std::string suite = ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name();
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / concat(suite, '_', name, '_', world().size());
  if (world().rank() == 0) std::filesystem::remove_all(folder);
  world().barrier();
  return folder;
}

}  // namespace tw::testing
