// SPDX-License-Identifier: Apache-2.0
// Shared memory inside a node, plans over messages between nodes. Ranks of a node divide the traffic between nodes: the k-th rank of each node
// carries share k and communicates with the k-th ranks of the other nodes. k runs up to the size of the smallest node.
//
// A tensor is sent in chunks, so that memory and network are busy at the same time. The ranks of a node run their joint phases in one fixed order:
// the first phases of several chunks come before the last phase of the first chunk.
#include <exception>
#include <map>
#include <tuple>
#include <tw/base/numbers.hpp>
#include <tw/mpi/library.hpp>

#include "backends.hpp"
#include "chunks.hpp"
#include "divide.hpp"
#include "nodes.hpp"
#include "plan_transfer.hpp"
#include "with_ending.hpp"

namespace tw {
namespace {

using algorithms::Algorithm;
using algorithms::Task;

BlockRange part(BlockRange whole, int64_t number, int64_t parts) {
  const int64_t begin = number * whole.count / parts;
  return {whole.begin + begin, (number + 1) * whole.count / parts - begin};
}

/// The phases of one call on one rank.
class Phases : public mpi::Transfer {
 public:
  /// Starts the transfer between nodes.
  using Between = std::function<std::unique_ptr<mpi::Transfer>()>;

  /// @param between one per chunk; an empty function: this rank carries nothing
  explicit Phases(std::vector<Between> between) : between_(std::move(between)), state_(between_.size()) {}

  /// The next exchange among the ranks of the node. @param after the chunk whose transfer between nodes must end before this rank takes part; -1:
  /// none.
  /// @param opens the chunk whose transfer between nodes may start afterwards; -1: none
  void add(std::unique_ptr<shared_memory::Exchange> exchange, int64_t after, int64_t opens) {
    if (opens >= 0) state_[static_cast<size_t>(opens)] = State::closed;
    in_node_.push_back({std::move(exchange), after, opens});
  }

  bool advance() override {
    while (true) {
      const bool moved_in_node = advance_in_node();
      const bool moved = advance_between() || moved_in_node;  // both advance in each round
      if (next_ == in_node_.size() && (failure_ || first_ == between_.size())) break;
      if (!moved) return false;
    }
    if (failure_) std::rethrow_exception(failure_);
    return true;
  }

 private:
  enum class State : uint8_t { open, closed, in_flight, ended };
  struct InNode {
    std::unique_ptr<shared_memory::Exchange> exchange;
    int64_t after;
    int64_t opens;
  };

  State& state(int64_t chunk) { return state_[static_cast<size_t>(chunk)]; }

  // If the node's ranks made different calls, the rest ends at once, as it does on the other ranks.
  bool advance_in_node() {
    if (next_ == in_node_.size()) return false;
    InNode& step = in_node_[next_];
    if (step.after >= 0 && state(step.after) != State::ended && !failure_) return false;
    try {
      if (!step.exchange->advance()) return false;
    } catch (...) {
      failure_ = std::current_exception();
    }
    if (step.opens >= 0) state(step.opens) = State::open;
    ++next_;
    return true;
  }

  bool advance_between() {
    bool moved = false;
    const size_t end = std::min(between_.size(), first_ + static_cast<size_t>(chunks_in_flight));  // see Chunks
    for (size_t chunk = first_; chunk < end && !failure_; ++chunk) {
      if (state_[chunk] == State::open) {
        if (between_[chunk]) transfers_[chunk] = between_[chunk]();
        state_[chunk] = State::in_flight;
      }
      if (state_[chunk] != State::in_flight || (transfers_[chunk] && !transfers_[chunk]->advance())) continue;
      transfers_.erase(chunk);
      state_[chunk] = State::ended;
      moved = true;
    }
    while (first_ < between_.size() && state_[first_] == State::ended) ++first_;
    return moved;
  }

  const std::vector<Between> between_;
  std::vector<State> state_;  // per chunk
  std::map<size_t, std::unique_ptr<mpi::Transfer>> transfers_;
  std::vector<InNode> in_node_;
  size_t next_ = 0;
  size_t first_ = 0;  // first chunk that has not ended
  std::exception_ptr failure_;
};

class HierarchicalBackend : public Backend {
 public:
  HierarchicalBackend(const Communicator& comm, std::shared_ptr<shared_memory::Channel> channel, int64_t flat_bytes, Nodes nodes,
                      std::shared_ptr<int64_t> next_sequence)
      : channel_(std::move(channel)),
        flat_bytes_(flat_bytes),
        nodes_(std::move(nodes)),
        next_sequence_(std::move(next_sequence)),
        mine_(nodes_.place_of[static_cast<size_t>(int{comm.rank()})]),
        carriers_(nodes_.fewest()),
        has_tags_(mpi::max_sequences(comm) >= 1000) {
    for (const auto& members : nodes_.members) peers_.push_back(members[static_cast<size_t>(std::min(mine_.local, carriers_ - 1))]);
  }

  std::string_view name() const noexcept override { return "hierarchical"; }

  std::string why_not(const Call& call) const override {
    if (nodes_.count() == 1) return "all ranks are on one node";
    if (nodes_.count() == static_cast<int>(nodes_.place_of.size())) return "every rank is alone on its node";
    if (!has_tags_) return "this MPI has too few tags";
    switch (call.collective) {
      case Collective::allreduce:
      case Collective::broadcast: return "";
      case Collective::reduce_scatter:
      case Collective::allgather: return nodes_.are_equal() ? "" : "the nodes have different numbers of ranks";
      default: return "this backend does not implement this collective";
    }
  }

  bool averages(ElementType type) const override { return type != ElementType::float16; }

  std::unique_ptr<mpi::Transfer> begin(const Communicator& comm, const BoundCall& bound) override {
    const Call& call = moved(bound);
    const bool divided = call.collective == Collective::reduce_scatter || call.collective == Collective::allgather;
    const int64_t count = call.collective == Collective::reduce_scatter ? call.count / comm.size() : call.count;  // of one part if divided
    const int64_t bytes = count * element_bytes(call.type) * (divided ? comm.size() : 1);
    const int64_t chunks = std::max<int64_t>(1, divide_up(bytes, chunk_bytes));
    const int64_t sequence = *next_sequence_;
    *next_sequence_ += chunks_in_flight;  // the same for every size, so that ranks called with different sizes stay in step
    const Making making{comm, bound, call, count, chunks, sequence, bound.part ? bound.part->refused : std::make_shared<bool>(false)};
    switch (call.collective) {
      case Collective::allreduce: return begin_allreduce(making);
      case Collective::broadcast: return begin_broadcast(making);
      case Collective::reduce_scatter: return begin_reduce_scatter(making);
      default: return begin_allgather(making);
    }
  }

 private:
  struct Making {
    const Communicator& comm;
    const BoundCall& bound;
    const Call& call;
    int64_t count;
    int64_t chunks;
    int64_t sequence;  // of the first chunk
    std::shared_ptr<bool> refused;

    int64_t bytes(int64_t elements) const { return elements * element_bytes(call.type); }
    BlockRange chunk(int64_t number) const { return part({0, count}, number, chunks); }
  };

  bool carries() const { return mine_.local < carriers_; }

  // One of the node-local calls that make up `making`.
  std::unique_ptr<shared_memory::Exchange> in_node(const Making& making, Collective collective, int root, int64_t count, const std::byte* input,
                                                   std::byte* output) const {
    Call moved = making.call;
    moved.collective = collective;
    moved.op = op_of(making.call);
    moved.peer = root;
    moved.count = count;
    return std::make_unique<shared_memory::Exchange>(channel_, making.bound.call, input, output, flat_bytes_, CallPart{moved, making.refused});
  }

  static ReduceOp op_of(const Call& call) { return call.op == ReduceOp::average ? ReduceOp::sum : call.op; }

  std::shared_ptr<const algorithms::Plan> plan_of(Algorithm algorithm, Collective collective, int root = 0, int64_t pipelined = 1) {
    std::shared_ptr<const algorithms::Plan>& plan = plans_[{algorithm, collective, root, pipelined}];
    if (!plan) {
      const Task task{.collective = collective, .ranks = nodes_.count(), .rank = mine_.node, .root = root, .pipelined = pipelined};
      plan = std::make_shared<const algorithms::Plan>(algorithms::make_plan(algorithm, task));
    }
    return plan;
  }

  // The transfer between nodes of this rank's share of chunk `number`. @param memory that the plan works on
  Phases::Between between(const Making& making, int64_t number, std::shared_ptr<const algorithms::Plan> plan, PlanMemory memory) const {
    if (!carries()) return {};
    memory.type = making.call.type;
    memory.op = op_of(making.call);
    return [comm = std::make_shared<const Communicator>(mpi::borrow(making.comm)), plan = std::move(plan), memory = std::move(memory), peers = peers_,
            sequence = making.sequence + number % chunks_in_flight] { return make_plan_transfer(*comm, plan, memory, peers, sequence); };
  }

  // Reduces shares to their carriers, all-reduces them between nodes, then broadcasts them inside each node.
  std::unique_ptr<mpi::Transfer> begin_allreduce(const Making& making) {
    std::byte* tensor = making.bound.output;
    const auto share = [&](int64_t number, int carrier) { return part(making.chunk(number), carrier, carriers_); };
    std::vector<Phases::Between> all;
    for (int64_t number = 0; number < making.chunks; ++number) {
      const BlockRange mine = share(number, std::min(mine_.local, carriers_ - 1));
      std::byte* memory = tensor + making.bytes(mine.begin);
      const auto plan = plan_of(algorithms::between_nodes(Collective::allreduce, nodes_.count(), making.bytes(mine.count)), Collective::allreduce);
      auto carry = between(making, number, plan, {.input = memory, .output = memory, .layout = even_layout(mine.count, plan->blocks)});
      if (carry && making.call.op == ReduceOp::average) {
        carry = [carry, memory, mine, type = making.call.type, ranks = making.comm.size()]() -> std::unique_ptr<mpi::Transfer> {
          return std::make_unique<WithEnding>(carry(), [=] { divide(memory, mine.count, type, ranks); });
        };
      }
      all.push_back(std::move(carry));
    }
    auto phases = std::make_unique<Phases>(std::move(all));
    for (int64_t number = 0; number < making.chunks + chunks_in_flight; ++number) {
      const int64_t last = number - chunks_in_flight;
      for (int carrier = 0; carrier < carriers_ && number < making.chunks; ++carrier) {
        const BlockRange range = share(number, carrier);
        std::byte* memory = tensor + making.bytes(range.begin);
        phases->add(in_node(making, Collective::reduce, carrier, range.count, memory, memory), -1,
                    carrier == std::min(mine_.local, carriers_ - 1) ? number : -1);
      }
      for (int carrier = 0; carrier < carriers_ && last >= 0; ++carrier) {
        const BlockRange range = share(last, carrier);
        std::byte* memory = tensor + making.bytes(range.begin);
        phases->add(in_node(making, Collective::broadcast, carrier, range.count, memory, memory), carrier == mine_.local ? last : -1, -1);
      }
    }
    return phases;
  }

  // Broadcasts on the root's node, sends shares between nodes, then broadcasts them inside the other nodes.
  std::unique_ptr<mpi::Transfer> begin_broadcast(const Making& making) {
    const Nodes::Place root = nodes_.place_of[static_cast<size_t>(making.call.peer)];
    const bool at_root = mine_.node == root.node;
    std::byte* tensor = making.bound.output;
    const auto share = [&](int64_t number, int carrier) { return part(making.chunk(number), carrier, carriers_); };
    std::vector<Phases::Between> all;
    for (int64_t number = 0; number < making.chunks; ++number) {
      const BlockRange mine = share(number, std::min(mine_.local, carriers_ - 1));
      std::byte* memory = tensor + making.bytes(mine.begin);
      const Algorithm algorithm = algorithms::between_nodes(Collective::broadcast, nodes_.count(), making.bytes(mine.count));
      const auto plan = plan_of(algorithm, Collective::broadcast, root.node, algorithms::pipelined_blocks(algorithm, making.bytes(mine.count)));
      all.push_back(between(making, number, plan, {.input = memory, .output = memory, .layout = even_layout(mine.count, plan->blocks)}));
    }
    auto phases = std::make_unique<Phases>(std::move(all));
    for (int64_t number = 0; number < making.chunks; ++number) {
      if (at_root) {
        const BlockRange range = making.chunk(number);
        std::byte* memory = tensor + making.bytes(range.begin);
        phases->add(in_node(making, Collective::broadcast, root.local, range.count, memory, memory), -1, number);
        continue;
      }
      for (int carrier = 0; carrier < carriers_; ++carrier) {
        const BlockRange range = share(number, carrier);
        std::byte* memory = tensor + making.bytes(range.begin);
        phases->add(in_node(making, Collective::broadcast, carrier, range.count, memory, memory), carrier == mine_.local ? number : -1, -1);
      }
    }
    return phases;
  }

  int rank_at(int node, int local) const { return nodes_.members[static_cast<size_t>(node)][static_cast<size_t>(local)]; }

  // First reduces inside the node: its k-th rank gets the sums destined for the k-th ranks of all nodes. Then reduce-scatters them between nodes to
  // their owners.
  std::unique_ptr<mpi::Transfer> begin_reduce_scatter(const Making& making) {
    const auto plan = plan_of(Algorithm::ring, Collective::reduce_scatter);
    const auto sums = std::shared_ptr<std::byte[]>(new std::byte[static_cast<size_t>(making.bytes(making.count) * nodes_.count())]);
    std::vector<Phases::Between> all;
    for (int64_t number = 0; number < making.chunks; ++number) {
      const BlockRange range = making.chunk(number);
      std::byte* result = making.bound.output + making.bytes(range.begin);
      PlanMemory memory{.input = sums.get(), .output = result, .layout = {}, .output_is_one_block = true};
      for (int node = 0; node < nodes_.count(); ++node) memory.layout.push_back({node * making.count + range.begin, range.count});
      const auto carry = between(making, number, plan, std::move(memory));
      all.emplace_back([=, average = making.call.op == ReduceOp::average, type = making.call.type,
                        ranks = making.comm.size()]() -> std::unique_ptr<mpi::Transfer> {
        return std::make_unique<WithEnding>(carry(), [=, keep = sums] {
          if (average) divide(result, range.count, type, ranks);
        });
      });
    }
    auto phases = std::make_unique<Phases>(std::move(all));
    for (int64_t number = 0; number < making.chunks; ++number) {
      const BlockRange range = making.chunk(number);
      for (int local = 0; local < carriers_; ++local) {
        for (int node = 0; node < nodes_.count(); ++node) {
          const std::byte* input = making.bound.input + making.bytes(rank_at(node, local) * making.count + range.begin);
          std::byte* sum = sums.get() + making.bytes(node * making.count + range.begin);
          const bool is_last = local == mine_.local && node == nodes_.count() - 1;
          phases->add(in_node(making, Collective::reduce, local, range.count, input, sum), -1, is_last ? number : -1);
        }
      }
    }
    return phases;
  }

  // The k-th ranks of all nodes gather among themselves, then share the result inside their node.
  std::unique_ptr<mpi::Transfer> begin_allgather(const Making& making) {
    const auto plan = plan_of(Algorithm::ring, Collective::allgather);
    std::vector<Phases::Between> all;
    for (int64_t number = 0; number < making.chunks; ++number) {
      const BlockRange range = making.chunk(number);
      PlanMemory memory{
          .input = making.bound.input + making.bytes(range.begin), .output = making.bound.output, .layout = {}, .input_is_one_block = true};
      for (const int peer : peers_) memory.layout.push_back({peer * making.count + range.begin, range.count});
      all.push_back(between(making, number, plan, std::move(memory)));
    }
    auto phases = std::make_unique<Phases>(std::move(all));
    for (int64_t number = 0; number < making.chunks; ++number) {
      const BlockRange range = making.chunk(number);
      for (int local = 0; local < carriers_; ++local) {
        for (int node = 0; node < nodes_.count(); ++node) {
          std::byte* memory = making.bound.output + making.bytes(rank_at(node, local) * making.count + range.begin);
          phases->add(in_node(making, Collective::broadcast, local, range.count, memory, memory), local == mine_.local ? number : -1, -1);
        }
      }
    }
    return phases;
  }

  const std::shared_ptr<shared_memory::Channel> channel_;
  const int64_t flat_bytes_;
  const Nodes nodes_;
  const std::shared_ptr<int64_t> next_sequence_;
  const Nodes::Place mine_;
  const int carriers_;  // per node
  const bool has_tags_;
  std::vector<int> peers_;  // by node: rank that carries the same share
  std::map<std::tuple<Algorithm, Collective, int, int64_t>, std::shared_ptr<const algorithms::Plan>> plans_;  // by root and blocks
};

}  // namespace

std::unique_ptr<Backend> make_hierarchical_backend(const Communicator& comm, std::shared_ptr<shared_memory::Channel> channel, int64_t flat_bytes,
                                                   Nodes nodes, std::shared_ptr<int64_t> next_sequence) {
  return std::make_unique<HierarchicalBackend>(comm, std::move(channel), flat_bytes, std::move(nodes), std::move(next_sequence));
}

}  // namespace tw
