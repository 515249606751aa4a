// SPDX-License-Identifier: Apache-2.0
// The results of a pipeline's ranks, computed by one process: stage by stage, for the same rows of the same micro-batches.
#pragma once
#include <torch/torch.h>

#include <string>
#include <tw/pipeline/pipeline.hpp>
#include <vector>

#include "../src/random_key.hpp"

namespace tw::pipeline {

using Tensors = std::vector<torch::Tensor>;

/// The begin of the i-th of n nearly equal parts of `count`.
inline int64_t border(int64_t count, int64_t n, int64_t i) {
  int64_t begin = 0;
  for (int64_t k = 0; k < i; ++k) begin += count / n + (k < count % n ? 1 : 0);
  return begin;
}

class Reference {
 public:
  Reference(std::vector<StageModel> stages, const PipelineOptions& options) : stages_(std::move(stages)), options_(options) {
    for (const int device : options_.schedule.device_of_stages())
      replicas_.push_back(options_.replicas.empty() ? 1 : options_.replicas[static_cast<size_t>(device)]);
  }

  double run(const Tensors& inputs, const Tensors& targets, const LossOfMany& loss) {
    // Buffers by stage and replica; all replicas begin with equal ones.
    std::vector<std::vector<Tensors>> buffers(stages_.size());
    std::vector<std::vector<int64_t>> rows_of(stages_.size());  // by stage and replica
    for (size_t s = 0; s < stages_.size(); ++s) {
      buffers[s].assign(static_cast<size_t>(replicas_[s]), buffers_of(s));
      rows_of[s].assign(static_cast<size_t>(replicas_[s]), 0);
    }
    const int64_t rows = targets.front().size(0);
    torch::Tensor total = torch::zeros({}, torch::kDouble);
    for (int64_t m = 0; m < options_.schedule.micro_batches; ++m) {
      const int64_t begin = border(rows, options_.schedule.micro_batches, m);
      const int64_t count = border(rows, options_.schedule.micro_batches, m + 1) - begin;
      if (count == 0) continue;
      Tensors values = narrow(inputs, begin, count);
      for (size_t s = 0; s < stages_.size(); ++s) {
        std::vector<Tensors> parts;
        for (int r = 0; r < replicas_[s]; ++r) {
          const int64_t first = border(count, replicas_[s], r);
          const int64_t n = border(count, replicas_[s], r + 1) - first;
          if (n == 0) continue;
          GeneratorGuard generator;
          seed_with(generator, {options_.seed, calls_, static_cast<int>(m), static_cast<int>(s), r});
          set_buffers(s, buffers[s][static_cast<size_t>(r)]);
          parts.push_back(stages_[s].stages.front().forward(narrow(values, first, n), {}));
          if (s + 1 == stages_.size()) {
            const double weight = static_cast<double>(n) / static_cast<double>(rows);
            total = total + loss(parts.back(), narrow(targets, begin + first, n)) * weight;
          }
          buffers[s][static_cast<size_t>(r)] = buffers_of(s);
          rows_of[s][static_cast<size_t>(r)] += n;
        }
        values.clear();
        for (size_t i = 0; i < parts.front().size(); ++i) {
          Tensors of_value;
          for (const Tensors& part : parts) of_value.push_back(part[i]);
          values.push_back(torch::cat(of_value));
        }
      }
    }
    total.backward();
    for (size_t s = 0; s < stages_.size(); ++s) set_buffers(s, mean(buffers[s], rows_of[s]));
    ++calls_;
    return total.item<double>();
  }

  Tensors forward(Tensors values) const {
    const torch::NoGradGuard no_gradients;
    for (const StageModel& stage : stages_) values = stage.stages.front().forward(values, {});
    return values;
  }

  const std::vector<StageModel>& stages() const { return stages_; }
  /// Tensors by their names in the whole model.
  torch::OrderedDict<std::string, torch::Tensor> tensors() const {
    torch::OrderedDict<std::string, torch::Tensor> all;
    for (const StageModel& stage : stages_) {
      for (const auto& named : {stage.module->named_parameters(), stage.module->named_buffers()}) {
        for (const auto& each : named) {
          if (!all.contains(each.key())) all.insert(each.key(), each.value());
        }
      }
    }
    return all;
  }
  /// Each parameter once.
  Tensors parameters() const {
    Tensors all;
    for (const StageModel& stage : stages_) {
      for (const torch::Tensor& p : stage.module->parameters()) {
        const auto same = [&](const torch::Tensor& known) { return known.is_same(p); };
        if (std::none_of(all.begin(), all.end(), same)) all.push_back(p);
      }
    }
    return all;
  }

 private:
  static Tensors narrow(const Tensors& tensors, int64_t begin, int64_t count) {
    Tensors parts;
    for (const torch::Tensor& each : tensors) parts.push_back(each.narrow(0, begin, count).clone());  // stages may work in place
    return parts;
  }
  Tensors buffers_of(size_t stage) const {
    Tensors copies;
    for (const torch::Tensor& each : stages_[stage].module->buffers()) copies.push_back(each.variable_data().clone());
    return copies;
  }
  void set_buffers(size_t stage, const Tensors& values) const {
    const Tensors buffers = stages_[stage].module->buffers();
    for (size_t i = 0; i < buffers.size(); ++i) buffers[i].variable_data().copy_(values[i]);
  }
  /// The mean of the replicas' buffers, weighted by rows.
  static Tensors mean(const std::vector<Tensors>& of_replicas, const std::vector<int64_t>& rows) {
    Tensors means;
    for (size_t i = 0; i < of_replicas.front().size(); ++i) {
      const torch::Tensor weights = torch::tensor(rows, torch::kDouble).to(of_replicas.front()[i].device());
      Tensors copies;
      for (const Tensors& replica : of_replicas) copies.push_back(replica[i]);
      const torch::Tensor all = torch::stack(copies);
      means.push_back(all.is_floating_point() ? torch::tensordot(weights.to(all.scalar_type()), all, {0}, {0}) / weights.sum().item() : all.amax(0));
    }
    return means;
  }

  std::vector<StageModel> stages_;  // each with one stage
  PipelineOptions options_;
  std::vector<int> replicas_ = {};  // by stage
  uint64_t calls_ = 0;
};

/// The stages of a pipeline of `factories`.
inline std::vector<StageModel> stages_of(const std::vector<BlockFactory>& factories, const PipelineOptions& options) {
  std::vector<StageModel> stages;
  int64_t next = 0;
  for (int s = 0; s < options.schedule.stages; ++s) {
    const auto count = static_cast<int64_t>(factories.size());
    const int64_t end = border(count, options.schedule.stages, s + 1);
    StageModel stage{std::make_shared<torch::nn::Module>(), {{}}};
    std::vector<Block> blocks;
    for (; next < end; ++next) {
      blocks.push_back(factories[static_cast<size_t>(next)]());
      stage.module->register_module(std::to_string(next), blocks.back().module);
    }
    stage.stages.front().forward = [blocks](const Tensors& inputs, const graph::PassRows& /*rows*/) {
      torch::Tensor x = inputs.front();
      for (const Block& each : blocks) x = each.forward(x);
      return Tensors{x};
    };
    stages.push_back(std::move(stage));
  }
  return stages;
}

/// Numbers of ranks of devices, for each number of ranks.
inline std::vector<std::vector<int>> layouts(int ranks) {
  switch (ranks) {
    case 1: return {{1}};
    case 2: return {{1, 1}, {2}};
    case 3: return {{1, 1, 1}, {1, 2}, {2, 1}, {3}};
    default: return {{1, 1, 1, 1}, {1, 3}, {3, 1}, {2, 2}, {1, 2, 1}, {4}};
  }
}

}  // namespace tw::pipeline
