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

/// Zeroed memory that the ranks of each node have all mapped, while it is being made. All ranks of a communicator begin it together; one at a time.
class NodeMemory {
 public:
  /// Begins; does not wait. @param neighbours the ranks of this node, ascending
  NodeMemory(const Communicator& comm, std::vector<int> neighbours, int64_t bytes);
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  /// Does what can be done without waiting; true once all ranks of `comm` have their memory. @throws Error on every rank, naming those that failed
  /// and why.
  bool advance(const Communicator& comm);
  /// What was made.
  std::shared_ptr<std::byte> take() const { return {mapping_, mapping_->bytes().data()}; }

 private:
  /// Of every rank, for all.
  struct Offer {
    std::array<char, 64> address{};   // where a node's first rank hands out the memory
    std::array<char, 188> failure{};  // empty: none
    int first = 0;                    // of its node
  };
  using Verdict = std::array<char, 1024>;  // what failed below a rank, or anywhere

  enum class Stage { offers, hand_over, gather, announce, made };

  bool leads() const noexcept { return neighbours_.front() == rank_; }
  void hear_offers(const Communicator& comm);
  bool hear_children();
  bool a_child_failed() const;
  bool hand_over();
  void report(const Communicator& comm);
  void announce(const Communicator& comm);
  bool all_sent();
  /// Keeps what `step` throws.
  template <class Step>
  void attempt(Step step);

  const int rank_;
  const std::vector<int> neighbours_;
  const int64_t bytes_;
  Stage stage_ = Stage::offers;
  std::string failure_;  // mine
  shared_memory::Descriptor memory_;
  std::optional<shared_memory::DescriptorServer> server_;
  std::optional<shared_memory::DescriptorReceiver> receiver_;
  int served_ = 0;
  std::shared_ptr<shared_memory::Mapping> mapping_ = std::make_shared<shared_memory::Mapping>();
  Offer mine_;
  std::vector<Offer> offers_;  // by rank
  std::unique_ptr<mpi::Transfer> exchange_;

  // The way of verdicts: from a node's ranks to its first, from there to rank 0, and back.
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

/// The same, waited for. Collective.
std::shared_ptr<std::byte> make_node_memory(const Communicator& comm, const std::vector<int>& neighbours, int64_t bytes);

}  // namespace tw
