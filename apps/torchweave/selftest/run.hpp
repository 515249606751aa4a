// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/mpi/environment.hpp>
#include <vector>

namespace tw::tool::selftest {

struct RunOptions {
  std::string json = "selftest.json";  ///< file for the record, in a folder that all ranks can write
  int limit = 100;                     ///< seconds after which a rank that waits for others ends the job
  // To test the self-test.
  std::vector<std::string> wrong_parts = {};     ///< parts in which the last rank computes with wrong values; "all": each
  std::vector<std::string> throwing_parts = {};  ///< parts in which the last rank throws
};

/// Runs all parts, one after the other. Rank 0 prints a table, and writes the record after each part, so that a part that crashes or hangs leaves
/// one. Collective. @return whether no part failed; the same on all ranks. @throws Error on every rank alike if the record cannot be written
bool run(Environment& mpi, const RunOptions& options);

}  // namespace tw::tool::selftest
