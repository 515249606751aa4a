// SPDX-License-Identifier: Apache-2.0
// Communicators of a network that several ranks evaluate together, and the agreement between ranks before each pass.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw::layer_parallel {

class PassCommunicators {
 public:
  /// Collective. @param comm is duplicated
  explicit PassCommunicators(const Communicator& comm);

  /// For communication between passes. It survives an exception in a pass.
  const Communicator& lasting() const noexcept { return lasting_; }
  /// For the messages of a pass. An exception in a pass revokes it, and the next begin_pass() replaces it.
  const Communicator& onward() const noexcept { return onward_; }
  /// The same ranks in reverse order.
  const Communicator& reversed() const noexcept { return reversed_; }

  /// Collective: 40 bytes a rank, and more where ranks differ.
  /// @param what for messages, such as "the input of a Recurrent"
  /// @param note any number, which all ranks receive
  /// @param lines checks this rank's arguments, and returns what must be the same on all ranks. Local.
  /// @param number number of the pass, the same on all ranks. If an exception ended the last pass, some ranks may have counted it and others not; the
  /// number then becomes the maximum over all ranks
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
