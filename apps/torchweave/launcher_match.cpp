// SPDX-License-Identifier: Apache-2.0
#include "launcher_match.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <tw/base/concat.hpp>

namespace tw::tool {
namespace {

/// What a launcher sets for each process that it starts.
struct Started {
  const char* launcher;
  const char* processes;  // variables
  const char* number;
};

constexpr std::array<Started, 4> launchers{{{"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                            {"a launcher that speaks PMI, such as MPICH's", "PMI_SIZE", "PMI_RANK"},
                                            {"MVAPICH's launcher", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                                            {"Slurm's srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}};

std::optional<int> number_in(const Variables& variables, const char* name) {
  const std::optional<std::string> text = variables(name);
  int number = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  return error == std::errc() && end == text->data() + text->size() ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string launcher_of(const Variables& variables) {
  for (const Started& each : launchers) {
    if (number_in(variables, each.processes) && number_in(variables, each.number)) return each.launcher;
  }
  return "";
}

bool started_with_others(const Variables& variables) { return !launcher_mismatch(variables, 1).empty(); }

std::string launcher_mismatch(const Variables& variables, int ranks) {
  if (ranks != 1) return "";
  for (const Started& each : launchers) {
    const auto processes = number_in(variables, each.processes);
    if (!processes || *processes < 2 || !number_in(variables, each.number)) continue;
    return concat(
        each.launcher, " has started ", *processes, " processes (", each.processes,
        "), but MPI counts 1 rank: each process does all of the work alone. Start them with the launcher of the MPI that Torchweave was built "
        "with, or with `torchweave launch`; srun needs the right --mpi, such as pmix");
  }
  return "";
}

bool is_first_process(const Variables& variables) {
  for (const Started& each : launchers) {
    if (const auto number = number_in(variables, each.number)) return *number == 0;
  }
  return true;
}

}  // namespace tw::tool
