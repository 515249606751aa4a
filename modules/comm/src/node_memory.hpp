// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/engine.hpp>
#include <tw/shared_memory/segment.hpp>
#include <vector>

namespace tw {

/// Zeroed memory that the ranks of each node share, while it is being made. All ranks of a communicator start making it together, one memory at a
/// time.
class NodeMemory {
 public:
  /// Starts it; does not block. @param neighbours the ranks of this node, ascending
  NodeMemory(const Communicator& comm, std::vector<int> neighbours, int64_t bytes);
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  /// Does what it can without blocking; true once all ranks of `comm` have their memory. @throws Error on every rank, with the failed ranks and their
  /// errors.
  bool advance(const Communicator& comm);
  /// The finished memory.
  std::shared_ptr<std::byte> take() const { return {mapping_, mapping_->bytes().data()}; }

 private:
  /// One rank's report to all others.
  struct Offer {
    std::array<char, 64> address{};   // socket where the node's first rank hands out the memory
    std::array<char, 188> failure{};  // empty: none
    int first = 0;                    // lowest rank of its node
  };
  using Verdict = std::array<char, 1024>;  // failures below a rank, or of all ranks

  enum class Stage { offers, hand_over, gather, announce, made };

  bool leads() const noexcept { return neighbours_.front() == rank_; }
  void hear_offers(const Communicator& comm);
  bool hear_children();
  bool a_child_failed() const;
  bool hand_over();
  void report(const Communicator& comm);
  void announce(const Communicator& comm);
  bool all_sent();
  /// Records the error that `step` throws.
  template <class Step>
  void attempt(Step step);

  const int rank_;
  const std::vector<int> neighbours_;
  const int64_t bytes_;
  Stage stage_ = Stage::offers;
  std::string failure_;  // of this rank
  shared_memory::Descriptor memory_;
  std::optional<shared_memory::DescriptorServer> server_;
  std::optional<shared_memory::DescriptorReceiver> receiver_;
  int served_ = 0;
  std::shared_ptr<shared_memory::Mapping> mapping_ = std::make_shared<shared_memory::Mapping>();
  Offer mine_;
  std::vector<Offer> offers_;  // by rank
  std::unique_ptr<mpi::Transfer> exchange_;

  // Verdicts travel from a node's ranks to its first rank, from there to rank 0, and back.
  struct Child {
    int rank;
    Verdict verdict{};
    std::unique_ptr<mpi::Transfer> receive;
  };
  std::list<Child> children_;
  Verdict verdict_{};
  std::unique_ptr<mpi::Transfer> from_parent_;
  std::list<std::unique_ptr<mpi::Transfer>> sends_;
  Verdict upwards_{};
};

/// Makes the memory and waits for it. Collective.
std::shared_ptr<std::byte> make_node_memory(const Communicator& comm, const std::vector<int>& neighbours, int64_t bytes);

}  // namespace tw
