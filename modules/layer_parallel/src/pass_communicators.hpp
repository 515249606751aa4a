// SPDX-License-Identifier: Apache-2.0
// The communicators of a network whose passes ranks make together, and what these agree on before each pass.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw::layer_parallel {

class PassCommunicators {
 public:
  /// Collective. @param comm duplicated
  explicit PassCommunicators(const Communicator& comm);

  /// For what ranks do between passes. It survives an exception in a pass.
  const Communicator& lasting() const noexcept { return lasting_; }
  /// For the messages of a pass. An exception in a pass revokes it, and the next begin_pass() puts a new one in its place.
  const Communicator& onward() const noexcept { return onward_; }
  /// The same ranks from the other end.
  const Communicator& reversed() const noexcept { return reversed_; }

  /// Collective: 40 bytes a rank, and more where ranks differ.
  /// @param what for messages, such as "the input of a Recurrent"
  /// @param note any number of this rank's
  /// @param lines checks what this rank is given, and returns what must be the same on all ranks. Local.
  /// @param number of the pass, the same on all ranks; after an exception, which may have reached ranks before or after they counted, becomes the
  /// greatest
  /// @return the notes of all ranks
  /// @throws ContractError or Error on every rank alike, naming ranks, where `lines` throws or differs
  std::vector<uint64_t> begin_pass(const std::string& what, uint64_t note, const std::function<std::vector<std::string>()>& lines, int64_t& number);
  std::vector<uint64_t> begin_pass(const std::string& what, uint64_t note, const std::function<std::vector<std::string>()>& lines) {
    int64_t none = 0;
    return begin_pass(what, note, lines, none);
  }

 private:
  Communicator lasting_;
  Communicator onward_;
  Communicator reversed_;
};

}  // namespace tw::layer_parallel
