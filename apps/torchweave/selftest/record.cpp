// SPDX-License-Identifier: Apache-2.0
#include "record.hpp"

#include <ATen/DeviceAccelerator.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <tw/base/concat.hpp>
#include <tw/comm/objects.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/mpi/topology.hpp>
#include <tw/version.hpp>

#include "launcher_match.hpp"
#include "machine.hpp"

namespace tw::tool::selftest {
namespace {

using Json = nlohmann::ordered_json;

/// The day in UTC, such as "2026-11-28".
std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 16> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d", &utc)};
}

std::string compiler() {
#if defined(__clang__)
  return concat("Clang ", __clang_major__, '.', __clang_minor__, '.', __clang_patchlevel__);
#elif defined(__GNUC__)
  return concat("GCC ", __GNUC__, '.', __GNUC_MINOR__, '.', __GNUC_PATCHLEVEL__);
#else
  return "unknown";
#endif
}

/// Each kind of node once, with the number of nodes of that kind.
Json machines_of(const Communicator& comm, const Topology& topology) {
  Json machines = Json::array();
  for (const std::string& text : allgather_strings(comm, topology.local_rank == 0 ? this_machine().dump() : "")) {
    if (text.empty()) continue;
    Json machine = Json::parse(text);
    const auto known = std::ranges::find_if(machines, [&](Json entry) {
      entry.erase("nodes");
      return entry == machine;
    });
    if (known != machines.end()) {
      (*known)["nodes"] = (*known)["nodes"].get<int>() + 1;
    } else {
      machine["nodes"] = 1;
      machines.push_back(machine);
    }
  }
  return machines;
}

std::string devices() {
  const auto kind = at::getAccelerator(/*checked=*/false);
  if (!kind || at::accelerator::deviceCount() == 0) return "";
  return concat(static_cast<int>(at::accelerator::deviceCount()), " of ", c10::DeviceTypeName(*kind, /*lower_case=*/true));
}

}  // namespace

Json describe_platform(const Communicator& comm) {
  const Topology topology = find_topology(comm);
  const std::string library = Environment::library_version();
  const MpiName mpi = mpi_name_in(library);
  return {{"torchweave", build_info().version},
          {"libtorch", TORCH_VERSION},
          {"compiler", compiler()},
          {"mpi", {{"name", mpi.name}, {"version", mpi.version}, {"library", library}}},
          {"launcher", launcher_of(variable)},
          {"ranks", comm.size()},
          {"nodes", topology.nodes},
          {"machines", machines_of(comm, topology)},
          {"devices", devices()},
          {"root", ::geteuid() == 0}};
}

std::string record_text(const Json& platform, const std::vector<Result>& results, bool finished, bool planted) {
  Json record{{"format", "torchweave selftest"}, {"version", record_version}, {"date", today()}};
  record.update(platform);
  record["finished"] = finished;
  record["passed"] = finished && std::ranges::none_of(results, [](const Result& result) { return result.outcome.verdict == Verdict::failed; });
  if (planted) record["planted_faults"] = true;
  Json parts = Json::array();
  for (const auto& [part, outcome, seconds] : results) {
    parts.push_back({{"name", part.name},
                     {"compares", part.compares},
                     {"outcome", name_of(outcome.verdict)},
                     {"why", outcome.why},
                     {"seconds", std::round(seconds * 1000) / 1000}});
  }
  record["parts"] = std::move(parts);
  return record.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + '\n';
}

}  // namespace tw::tool::selftest
