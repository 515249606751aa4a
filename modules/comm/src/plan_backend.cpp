// SPDX-License-Identifier: Apache-2.0
// Collectives made of messages, which follow the plans of `algorithms`.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <tw/algorithms/price.hpp>
#include <tw/base/numbers.hpp>
#include <tw/mpi/library.hpp>

#include "backends.hpp"
#include "chunks.hpp"
#include "divide.hpp"
#include "plan_transfer.hpp"
#include "with_ending.hpp"

namespace tw {
namespace {

using algorithms::Algorithm;
using algorithms::Plan;
using algorithms::Task;

bool has_parts(Collective collective) {
  return collective == Collective::allgather || collective == Collective::reduce_scatter || collective == Collective::alltoall;
}

// The elements of one rank's part, or of the whole tensor if it is not divided.
int64_t divided_count(const Call& call, int ranks) {
  return has_parts(call.collective) && call.collective != Collective::allgather ? call.count / ranks : call.count;
}

// Whether plans handle one block at a time, so that the parts of a chunk need not be adjacent.
bool takes_blocks_apart(Algorithm algorithm) { return algorithm != Algorithm::circulant && algorithm != Algorithm::bruck; }

class PlanBackend : public Backend {
 public:
  PlanBackend(Algorithm algorithm, const Communicator& comm, std::shared_ptr<int64_t> next_sequence)
      : algorithm_(algorithm),
        next_sequence_(std::move(next_sequence)),
        ranks_(static_cast<size_t>(comm.size())),
        why_never_(comm.size() == 1                  ? "a single rank needs no communication"
                   : mpi::max_sequences(comm) < 1000 ? "this MPI has too few tags"
                                                     : "") {
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }

  std::string_view name() const noexcept override { return algorithms::name_of(algorithm_); }

  std::string why_not(const Call& call) const override {
    if (!why_never_.empty()) return why_never_;
    return algorithms::can(algorithm_, call.collective) ? "" : "this algorithm does not implement this collective";
  }

  bool averages(ElementType type) const override { return type != ElementType::float16; }

  std::unique_ptr<mpi::Transfer> begin(const Communicator& comm, const BoundCall& bound) override {
    const Call& call = moved(bound);
    const int64_t divided = divided_count(call, comm.size());
    const int64_t per_rank = std::max<int64_t>(1, chunk_bytes / element_bytes(call.type) / (has_parts(call.collective) ? comm.size() : 1));
    const bool in_chunks = !has_parts(call.collective) || takes_blocks_apart(algorithm_);
    const int64_t chunks = in_chunks ? std::max<int64_t>(1, divide_up(divided, per_rank)) : 1;
    const int64_t largest_chunk = divide_up(divided, chunks);
    const auto plan = plan_of(comm, call, algorithms::pipelined_blocks(algorithm_, largest_chunk * element_bytes(call.type)));
    const int64_t first_sequence = *next_sequence_;
    *next_sequence_ += chunks_in_flight;  // the same for every size, so that ranks called with different sizes stay in step
    const auto begin_chunk = [this, of = std::make_shared<const Communicator>(mpi::borrow(comm)), call, input = bound.input, output = bound.output,
                              divided, chunks, plan, first_sequence](int64_t chunk) {
      const BlockRange range{chunk * divided / chunks, (chunk + 1) * divided / chunks - chunk * divided / chunks};
      PlanMemory memory = memory_of(call, range, divided, plan->blocks, input, output);
      std::byte* result = memory.output;
      auto transfer = make_plan_transfer(*of, plan, std::move(memory), ranks_, first_sequence + chunk % chunks_in_flight);
      const bool has_result = call.collective != Collective::reduce || call.peer == of->rank();
      if (!is_reduction(call.collective) || call.op != ReduceOp::average || !has_result) return transfer;
      const auto average = [result, range, type = call.type, ranks = of->size()] { divide(result, range.count, type, ranks); };
      return std::unique_ptr<mpi::Transfer>(std::make_unique<WithEnding>(std::move(transfer), average));
    };
    if (chunks == 1) return begin_chunk(0);
    return std::make_unique<Chunks>(chunks, begin_chunk);
  }

 private:
  std::shared_ptr<const Plan> plan_of(const Communicator& comm, const Call& call, int64_t pipelined) {
    const int root = std::max(0, call.peer);
    std::shared_ptr<const Plan>& plan = plans_[{call.collective, root, pipelined}];
    if (!plan) {
      const Task task{.collective = call.collective, .ranks = comm.size(), .rank = comm.rank(), .root = root, .pipelined = pipelined};
      plan = std::make_shared<const Plan>(algorithms::make_plan(algorithm_, task));
    }
    return plan;
  }

  // Averages are divided at the end.
  static ReduceOp op_of(const Call& call) { return call.op == ReduceOp::average ? ReduceOp::sum : call.op; }

  // The memory for elements `range` of the tensor, or of each rank's part of it.
  static PlanMemory memory_of(const Call& call, BlockRange range, int64_t part, int64_t blocks, const std::byte* input, std::byte* output) {
    PlanMemory memory{.input = input, .output = output, .layout = {}, .type = call.type, .op = op_of(call)};
    const int64_t skipped = range.begin * element_bytes(call.type);
    if (has_parts(call.collective)) {
      for (int64_t block = 0; block < blocks; ++block) memory.layout.push_back({block * part + range.begin, range.count});
      memory.input_is_one_block = call.collective == Collective::allgather;
      memory.output_is_one_block = call.collective == Collective::reduce_scatter;
      if (memory.input_is_one_block) memory.input += skipped;
      if (memory.output_is_one_block) memory.output += skipped;
    } else if (call.collective != Collective::barrier) {
      memory.layout = even_layout(range.count, blocks);
      memory.input += skipped;
      memory.output += skipped;
    }
    return memory;
  }

  const Algorithm algorithm_;
  const std::shared_ptr<int64_t> next_sequence_;
  std::vector<int> ranks_;
  const std::string why_never_;
  std::map<std::tuple<Collective, int, int64_t>, std::shared_ptr<const Plan>> plans_;  // by root and blocks
};

}  // namespace

std::vector<std::unique_ptr<Backend>> make_plan_backends(const Communicator& comm, const std::shared_ptr<int64_t>& next_sequence) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (int i = 0; i < algorithms::algorithm_count; ++i) {
    backends.push_back(std::make_unique<PlanBackend>(static_cast<Algorithm>(i), comm, next_sequence));
  }
  return backends;
}

}  // namespace tw
