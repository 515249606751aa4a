// SPDX-License-Identifier: Apache-2.0
// The parts of `torchweave selftest`.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <tw/mpi/communicator.hpp>

namespace tw::tool::selftest {

enum class Verdict { passed, failed, skipped, not_run };
/// "passed", "failed", "skipped", "not run".
std::string_view name_of(Verdict verdict);

struct Outcome {
  Verdict verdict = Verdict::passed;
  std::string why = {};  ///< reason, unless the part passed
};

/// Arguments of a part.
struct Conditions {
  std::filesystem::path folder;  ///< for the part's files; all ranks can write there
  bool is_wrong_here = false;    ///< this rank computes with wrong values, so that the part must fail
};

/// A part compares results of the library with reference results.
struct Part {
  std::string_view name;
  std::string_view compares;
  int least_ranks = 1;
  /// Collective. @param comm for this part only; the other ranks' waits end if the part throws on one rank
  /// @return the verdict of this rank. The same on all ranks if it is `skipped`
  Outcome (*run)(const Communicator& comm, const Conditions& conditions);
};

/// All parts, in the order in which they run.
std::span<const Part> parts();

// The functions of the table.
Outcome compare_collectives(const Communicator& comm, const Conditions& conditions);
Outcome compare_data_parallel(const Communicator& comm, const Conditions& conditions);
Outcome compare_sharded_optimizer(const Communicator& comm, const Conditions& conditions);
Outcome compare_fully_sharded(const Communicator& comm, const Conditions& conditions);
Outcome compare_local_sgd(const Communicator& comm, const Conditions& conditions);
Outcome compare_diloco(const Communicator& comm, const Conditions& conditions);
Outcome compare_parameter_server(const Communicator& comm, const Conditions& conditions);
Outcome compare_tensor_parallel(const Communicator& comm, const Conditions& conditions);
Outcome compare_pipeline(const Communicator& comm, const Conditions& conditions);
Outcome compare_layers_in_parallel(const Communicator& comm, const Conditions& conditions);
Outcome compare_parallelize(const Communicator& comm, const Conditions& conditions);
Outcome compare_checkpoints(const Communicator& comm, const Conditions& conditions);
Outcome compare_search(const Communicator& comm, const Conditions& conditions);
Outcome compare_devices(const Communicator& comm, const Conditions& conditions);

}  // namespace tw::tool::selftest
