// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "part.hpp"

namespace tw::tool::selftest {
namespace {

constexpr std::array<Part, 14> table{{
    {"collectives", "every backend with MPI's own collectives", 1, compare_collectives},
    {"data_parallel", "two steps with those of one process", 1, compare_data_parallel},
    {"sharded_optimizer", "two steps with those of one process", 1, compare_sharded_optimizer},
    {"fully_sharded", "two steps with those of one process", 1, compare_fully_sharded},
    {"local_sgd", "two steps, and a mean after each, with those of one process", 1, compare_local_sgd},
    {"diloco", "two steps, and a mean after each, with those of one process", 1, compare_diloco},
    {"parameter_server", "a step of all workers with one process that adds up their updates", 2, compare_parameter_server},
    {"tensor_parallel", "two steps of split layers with those of one process", 1, compare_tensor_parallel},
    {"pipeline", "two steps with those of one process", 2, compare_pipeline},
    {"layer_parallel", "two steps with those of one process", 1, compare_layers_in_parallel},
    {"parallelize", "two steps on a mesh with those of one process", 1, compare_parallelize},
    {"checkpoint", "tensors saved on all ranks with those loaded on other numbers of ranks", 1, compare_checkpoints},
    {"search", "the best trial of all ranks with the least loss of any trial", 1, compare_search},
    {"devices", "an all-reduce of tensors on devices with its sum", 1, compare_devices},
}};

}  // namespace

std::span<const Part> parts() { return table; }

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed: return "passed";
    case Verdict::failed: return "failed";
    case Verdict::skipped: return "skipped";
    default: return "not run";
  }
}

}  // namespace tw::tool::selftest
