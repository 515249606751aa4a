// SPDX-License-Identifier: Apache-2.0
// A stage made from a list of blocks.
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

  /// Tensors of blocks `begin` to `end` that other stages have too: from the name here to the first name anywhere.
  std::map<std::string, std::string> tied(int64_t begin, int64_t end) const {
    std::map<std::string, std::string> tied;
    const auto is_mine = [&](int64_t block) { return begin <= block && block < end; };
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

StageModel::Forward segment_of(Block block, int64_t index) {
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

/// The stage of blocks `begin` to `end`. The other blocks are made and released as well, because of the random numbers they draw and the tensors they
/// share.
StageModel stage_of_blocks(const std::vector<BlockFactory>& factories, int64_t begin, int64_t end) {
  StageModel model;
  model.module = std::make_shared<torch::nn::Module>();
  SharedTensors shared;
  for (int64_t i = 0; i < static_cast<int64_t>(factories.size()); ++i) {
    Block made = factories[static_cast<size_t>(i)]();
    shared.add(i, *made.module);
    if (i < begin || i >= end) continue;
    model.module->register_module(std::to_string(i), made.module);
    model.segments.push_back(segment_of(std::move(made), i));
  }
  model.forward = in_turn(model.segments);
  model.tied = shared.tied(begin, end);
  return model;
}

}  // namespace

Pipeline::Start Pipeline::start_of(const Communicator& comm, const std::vector<BlockFactory>& factories, const PipelineOptions& options) {
  expect_fit(comm, options, concat(factories.size(), " blocks"));
  const int stages = options.schedule.stages;
  TW_EXPECTS(factories.size() >= static_cast<size_t>(stages), factories.size(), " blocks for ", stages, " stages: each needs at least one block");
  const Rows mine = part_of({0, static_cast<int64_t>(factories.size())}, stages, ranks_of(options).stage_of(comm.rank()));
  StageModel model = on_all_ranks(comm, "making the blocks of the stages", [&] { return stage_of_blocks(factories, mine.begin, mine.end); });
  return {comm.dup(), std::move(model), options};
}

}  // namespace tw::pipeline
