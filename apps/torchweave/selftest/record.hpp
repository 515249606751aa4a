// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <tw/mpi/communicator.hpp>
#include <vector>

#include "part.hpp"

namespace tw::tool::selftest {

/// A part that has run.
struct Result {
  Part part;
  Outcome outcome;
  double seconds = 0;
};

/// The format of the record. A reader refuses another version.
inline constexpr int record_version = 1;

/// What a self-test runs on: machines, MPI, LibTorch, compiler and launcher. Collective.
nlohmann::ordered_json describe_platform(const Communicator& comm);

/// The record of a self-test, as text. @param finished whether all parts have run. @param planted whether faults were planted
std::string record_text(const nlohmann::ordered_json& platform, const std::vector<Result>& results, bool finished, bool planted);

}  // namespace tw::tool::selftest
