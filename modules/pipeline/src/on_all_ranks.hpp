// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <optional>
#include <string>
#include <tw/base/error.hpp>
#include <tw/comm/objects.hpp>

namespace tw::pipeline {

/// What `make` gives, unless it throws on some rank: then all throw, what the first of them did. Collective; `make` is local.
template <class Make>
auto on_all_ranks(const Communicator& comm, const Make& make) {
  std::optional<decltype(make())> made;
  std::string problem;
  try {
    made = make();
  } catch (const std::exception& error) {
    problem = error.what();
    if (problem.empty()) problem = "an exception without a message";
  }
  for (const std::string& each : allgather_strings(comm, problem)) {
    if (!each.empty()) throw Error(each);
  }
  return std::move(*made);
}

}  // namespace tw::pipeline
