// SPDX-License-Identifier: Apache-2.0
#include "step_agreement.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <bit>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/tensor/content_hash.hpp>

namespace tw {
namespace {

using Tensors = std::vector<at::Tensor>;

bool is_given(const Tensors& tensors) { return !tensors.empty() && tensors.front().defined(); }

int64_t rows_of(const Tensors& tensors) {
  if (!is_given(tensors)) return BatchFacts::unknown;
  for (const at::Tensor& each : tensors) {
    if (!each.defined() || each.dim() == 0 || each.size(0) != tensors.front().size(0)) return BatchFacts::uneven;
  }
  return tensors.front().size(0);
}

int64_t hash_of(const Tensors& tensors) {
  uint64_t hash = 1;
  for (const at::Tensor& each : tensors) hash = hash * 1099511628211U + content_hash(each);
  return hash == 0 ? 1 : static_cast<int64_t>(hash);
}

constexpr int64_t fields = 7;

void expect_equal_calls(const std::vector<BatchFacts>& facts) {
  constexpr std::array names{"train_step()", "evaluate()", "memory()"};
  for (size_t rank = 1; rank < facts.size(); ++rank) {
    TW_EXPECTS(facts[rank].call == facts[0].call, "rank 0 calls ", names.at(static_cast<size_t>(facts[0].call)), ", rank ", rank, " calls ",
               names.at(static_cast<size_t>(facts[rank].call)), ": all ranks must make the same calls of a ParallelModel, in the same order");
    TW_EXPECTS(facts[rank].modes == facts[0].modes, "ranks 0 and ", rank,
               " have the model in different modes: call train() and eval() on all ranks alike");
  }
}

}  // namespace

BatchFacts facts_of(const Tensors& inputs, const Tensors& targets, const Loss& loss, bool hashes) {
  BatchFacts facts{.rows = rows_of(inputs)};
  const int64_t of_targets = rows_of(targets);
  if (facts.rows == BatchFacts::unknown) facts.rows = of_targets;
  if (of_targets != BatchFacts::unknown && of_targets != facts.rows) facts.rows = BatchFacts::uneven;
  if (facts.rows < 0) return facts;
  facts.knows_weight = is_given(targets);
  if (facts.knows_weight && facts.rows > 0) facts.weight = loss.is_sum() ? 1 : loss.weight(targets, facts.rows);
  if (hashes && is_given(inputs)) facts.inputs = hash_of(inputs);
  if (hashes && is_given(targets)) facts.targets = hash_of(targets);
  return facts;
}

Update update_of(const std::vector<BatchFacts>& facts, const std::vector<int>& place_of) {
  const auto places = static_cast<size_t>(*std::ranges::max_element(place_of) + 1);
  Update update{.rows = std::vector<int64_t>(places, BatchFacts::unknown)};
  std::vector<int> first(places, -1);  // rank that knows the inputs, by place
  std::vector<int64_t> inputs(places, 0);
  std::vector<int64_t> targets(places, 0);
  std::vector<bool> weighed(places, false);
  for (size_t rank = 0; rank < facts.size(); ++rank) {
    TW_EXPECTS(facts[rank].rows != BatchFacts::refused, "rank ", rank, " cannot make a pass, for the reason in its own error");
  }
  expect_equal_calls(facts);
  for (size_t rank = 0; rank < facts.size(); ++rank) {
    const BatchFacts& mine = facts[rank];
    const auto place = static_cast<size_t>(place_of[rank]);
    TW_EXPECTS(mine.rows != BatchFacts::uneven, "the inputs and targets of rank ", rank, " have different numbers of rows");
    if (mine.rows == BatchFacts::unknown) continue;
    if (first[place] < 0) {
      first[place] = static_cast<int>(rank);
      update.rows[place] = mine.rows;
    }
    TW_EXPECTS(update.rows[place] == mine.rows, "ranks ", first[place], " and ", rank, " hold a model together, but their batches have ",
               update.rows[place], " and ", mine.rows, " rows: they need the same samples");
    const auto agree = [&](int64_t& known, int64_t hash) {
      if (known == 0) known = hash;
      return hash == 0 || known == hash;
    };
    TW_EXPECTS(
        agree(inputs[place], mine.inputs) && agree(targets[place], mine.targets), "ranks ", first[place], " and ", rank,
        " hold a model together, but their batches differ: deal samples only along `data` and `shard`, for example by ParallelModel::sampler()");
    if (mine.knows_weight && !weighed[place]) {
      weighed[place] = true;
      update.weight += mine.weight;
    }
  }
  for (size_t place = 0; place < places; ++place) {
    TW_EXPECTS(first[place] >= 0, "no rank at place ", place,
               " along `data` and `shard` has a batch: pass one with 0 rows if the place has no samples");
    TW_EXPECTS(weighed[place], "no rank at place ", place, " along `data` and `shard` has targets");
    update.all_rows += update.rows[place];
  }
  TW_EXPECTS(update.all_rows > 0, "no rank has samples");
  TW_EXPECTS(update.weight > 0, "no target counts: the weight of the loss is 0 over all samples of the update");
  return update;
}

Update agree_on_update(const Communicator& comm, const BatchFacts& mine, const std::vector<int>& place_of) {
  if (comm.size() == 1) return update_of({mine}, place_of);
  const at::Tensor here = at::empty({fields}, at::kLong);
  auto* const values = here.mutable_data_ptr<int64_t>();
  values[0] = mine.rows;
  values[1] = std::bit_cast<int64_t>(mine.weight);
  values[2] = mine.knows_weight ? 1 : 0;
  values[3] = mine.inputs;
  values[4] = mine.targets;
  values[5] = static_cast<int64_t>(mine.call);
  values[6] = mine.modes;
  const at::Tensor all = at::empty({comm.size(), fields}, at::kLong);
  allgather(comm, here, all);
  std::vector<BatchFacts> facts;
  const int64_t* of = all.const_data_ptr<int64_t>();
  for (int rank = 0; rank < comm.size(); ++rank, of += fields) {
    facts.push_back({of[0], std::bit_cast<double>(of[1]), of[2] != 0, of[3], of[4], static_cast<BatchFacts::Call>(of[5]), of[6]});
  }
  return update_of(facts, place_of);
}

}  // namespace tw
