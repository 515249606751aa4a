// SPDX-License-Identifier: Apache-2.0
// Stages made from a list of blocks.
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <map>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/step_communicator.hpp>
#include <tw/mpi/error.hpp>

#include "impl.hpp"
#include "in_turn.hpp"

namespace tw::pipeline {
namespace {

using Identity = c10::weak_intrusive_ptr<c10::TensorImpl>;  // the weak reference keeps the address from being reused

/// Whether `block` is in one of these ranges.
bool contains(const std::vector<Rows>& ranges, int64_t block) {
  return std::ranges::any_of(ranges, [&](Rows range) { return range.begin <= block && block < range.end; });
}

/// A parameter or buffer of several blocks.
struct Shared {
  Identity identity;
  std::vector<std::pair<int64_t, std::string>> places;  // block, and name in the whole model
};

/// Records which blocks share parameters and buffers.
class SharedTensors {
 public:
  void add(int64_t block, const torch::nn::Module& module) {
    for (const auto& tensors : {module.named_parameters(), module.named_buffers()}) {
      for (const auto& each : tensors) {
        auto found = known_.find(each.value().unsafeGetTensorImpl());
        if (found == known_.end()) {
          found = known_.emplace(each.value().unsafeGetTensorImpl(), Shared{Identity(each.value().getIntrusivePtr()), {}}).first;
        }
        found->second.places.emplace_back(block, concat(block, '.', each.key()));
      }
    }
  }

  /// Tensors of the blocks in `mine` that other blocks have too: from the name here to the first name anywhere.
  std::map<std::string, std::string> tied(const std::vector<Rows>& mine) const {
    std::map<std::string, std::string> tied;
    const auto is_mine = [&](int64_t block) { return contains(mine, block); };
    for (const auto& [address, shared] : known_) {
      const bool elsewhere = std::any_of(shared.places.begin(), shared.places.end(), [&](const auto& place) { return !is_mine(place.first); });
      for (const auto& [block, name] : shared.places) {
        if (elsewhere && is_mine(block)) tied.emplace(name, shared.places.front().second);
      }
    }
    return tied;
  }

 private:
  std::map<const c10::TensorImpl*, Shared> known_;
};

Stage::Forward segment_of(Block block, int64_t index) {
  return [block = std::move(block), index](const std::vector<at::Tensor>& values, const graph::PassRows& /*rows*/) -> std::vector<at::Tensor> {
    TW_EXPECTS(values.size() == 1, "a block takes one tensor, got ", values.size());
    try {
      return {block.forward(values.front())};
    } catch (const RevokedError&) {  // another rank failed
      throw;
    } catch (const std::exception&) {
      throw Error(concat("block ", index, ": ", message_of_current_exception()));
    }
  };
}

/// One stage for each of the ranges of blocks. The other blocks are made and released as well, because of the random numbers they draw and the
/// tensors they share.
StageModel stages_of_blocks(const std::vector<BlockFactory>& factories, const std::vector<Rows>& ranges) {
  StageModel model;
  model.module = std::make_shared<torch::nn::Module>();
  SharedTensors shared;
  for (int64_t i = 0; i < static_cast<int64_t>(factories.size()); ++i) {
    Block made = factories[static_cast<size_t>(i)]();
    shared.add(i, *made.module);
    if (!contains(ranges, i)) continue;
    if (model.stages.empty() || !contains({ranges[model.stages.size() - 1]}, i)) model.stages.emplace_back();
    model.module->register_module(std::to_string(i), made.module);
    model.stages.back().segments.push_back(segment_of(std::move(made), i));
  }
  for (Stage& each : model.stages) each.forward = in_turn(each.segments);
  model.tied = shared.tied(ranges);
  return model;
}

}  // namespace

Pipeline::Start Pipeline::start_of(const Communicator& comm, const std::vector<BlockFactory>& factories, const PipelineOptions& options) {
  expect_fit(comm, options, concat(factories.size(), " blocks"));
  const int stages = options.schedule.stages;
  TW_EXPECTS(factories.size() >= static_cast<size_t>(stages), factories.size(), " blocks for ", stages, " stages: each needs at least one block");
  const StageRanks ranks = ranks_of(options);
  std::vector<Rows> mine;
  for (const int stage : ranks.stages_of(ranks.device_of(comm.rank()))) {
    mine.push_back(part_of({0, static_cast<int64_t>(factories.size())}, stages, stage));
  }
  StageModel model = on_all_ranks(comm, "making the blocks of the stages", [&] { return stages_of_blocks(factories, mine); });
  return {comm.dup(), std::move(model), options};
}

}  // namespace tw::pipeline
