// SPDX-License-Identifier: Apache-2.0
// A fully sharded model on n ranks against the plain one on 1 rank with all samples, in float64. Every rank also trains the plain one.
//
// Tolerance: |ours - reference| <= 1e-12 |reference| in the 2-norm of each parameter. The two differ in the order of summation over samples and
// ranks: a step's relative difference is a few times 1.1e-16 times the square root of the terms (at most 16 samples of 16 places), about 1e-15, and
// the five steps of smooth networks, with momentum, make at most 1e-13 of it.
#pragma once
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tw/data_parallel.hpp>
#include <utility>
#include <vector>

#include "elementwise_optimizers.hpp"

namespace tw::testing::sharded {

constexpr int64_t each = 4;  // samples per rank
constexpr int64_t steps = 5;

/// A model, built with the same values at each call, and its mean loss on some samples of a step.
struct Kind {
  std::string name;
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  std::function<at::Tensor(torch::nn::Module&, const at::Tensor& x, int64_t step)> loss;  // x: [n, 8]
  /// For random numbers and layers that depend on the batch: each rank has its own, and its own buffers.
  bool splits_matter = false;
};

/// `make` returns a module holder.
template <class Make>
auto making(const Make& make) {
  return [make]() -> std::shared_ptr<torch::nn::Module> {
    torch::manual_seed(5);
    auto module = make();
    module->to(torch::kDouble);
    place_module(module);
    return module.ptr();
  };
}

template <class Impl>
at::Tensor square_of(torch::nn::Module& module, const at::Tensor& x, int64_t /*step*/) {
  return dynamic_cast<Impl&>(module).forward(x).square().mean();
}

template <class Impl>
Kind kind_of(const std::string& name) {
  return {name, making([] { return torch::nn::ModuleHolder<Impl>(std::make_shared<Impl>()); }), &square_of<Impl>};
}
inline Kind kind_of(const std::string& name, const std::function<torch::nn::Sequential()>& make) {
  return {name, making(make), [](torch::nn::Module& module, const at::Tensor& x, int64_t) {
            return dynamic_cast<torch::nn::SequentialImpl&>(module).forward(x).square().mean();
          }};
}

inline torch::nn::Sequential layers() {
  return torch::nn::Sequential(torch::nn::Linear(8, 13), torch::nn::LayerNorm(torch::nn::LayerNormOptions({13})), torch::nn::Tanh(),
                               torch::nn::Linear(13, 11), torch::nn::GELU(), torch::nn::Linear(11, 3));
}
inline Kind plain() { return kind_of("layers", &layers); }

inline at::Tensor samples_of(int64_t step) {
  torch::manual_seed(static_cast<uint64_t>(1000 + step));
  return place(torch::randn({4 * each, 8}, torch::kDouble));
}
inline at::Tensor samples_of(int64_t step, int rank) { return samples_of(step).narrow(0, rank * each, each); }
inline at::Tensor all_samples(int64_t step) { return samples_of(step).narrow(0, 0, world().size() * each); }
inline at::Tensor my_samples(int64_t step) { return samples_of(step, world().rank()); }

/// LibTorch lists tied parameters twice, and its optimizers update them twice.
inline std::vector<at::Tensor> each_once(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> once;
  for (const at::Tensor& parameter : parameters) {
    if (std::none_of(once.begin(), once.end(), [&](const at::Tensor& other) { return other.is_same(parameter); })) once.push_back(parameter);
  }
  return once;
}

inline std::vector<NamedTensor> named_parameters_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> all;
  for (const auto& entry : module.named_parameters()) all.push_back({entry.key(), entry.value()});
  return all;
}

/// All values of a sharded parameter, obtained by an operator.
inline at::Tensor value_of(const at::Tensor& parameter) {
  const at::NoGradGuard no_grad;
  return parameter.clone();
}

inline void expect_near(const at::Tensor& ours, const at::Tensor& reference, const std::string& what) {
  const at::Tensor other = reference.is_complex() ? reference.detach() : reference.detach().to(torch::kDouble);
  EXPECT_LE((value_of(ours) - other).norm().item<double>(), 1e-12 * other.norm().item<double>()) << what;
}

/// Compares parameters and buffers.
inline void expect_equal(const torch::nn::Module& ours, const torch::nn::Module& reference, const std::string& what) {
  const auto parameters = reference.named_parameters();
  for (const auto& entry : ours.named_parameters()) expect_near(entry.value(), parameters[entry.key()], what + ' ' + entry.key());
  const auto buffers = reference.named_buffers();
  for (const auto& entry : ours.named_buffers()) expect_near(entry.value(), buffers[entry.key()], what + ' ' + entry.key());
}

inline std::vector<FullyShardedOptions> modes() {
  std::vector<FullyShardedOptions> all;
  for (const int64_t unit_bytes : {1, 700, 1 << 20}) {
    for (const int ahead : {0, 2}) all.push_back({.reduction = Reduction::mean, .unit_bytes = unit_bytes, .prefetch_units = ahead});
  }
  all.push_back({.reduction = Reduction::mean, .unit_bytes = 1, .resident_bytes = 700});
  if (device().is_cpu() && find_topology(world()).nodes == 1)
    all.push_back({.reduction = Reduction::mean, .unit_bytes = 700, .one_copy_per_node = true});
  return all;
}

inline std::string text_of(const FullyShardedOptions& options) {
  return concat("units of ", options.unit_bytes, ", ahead ", options.prefetch_units, ", kept ", options.resident_bytes,
                options.one_copy_per_node ? ", one copy" : "");
}

/// Seeds a rank's pass.
inline void seed(int64_t pass, int rank) { torch::manual_seed(static_cast<uint64_t>(100 * pass + rank)); }

/// For a pass over the samples of `rank`: restores the module's buffers afterwards, unless it is this rank.
class OwnBuffers {
 public:
  OwnBuffers(torch::nn::Module& module, int rank) {
    if (rank == world().rank()) return;
    for (const at::Tensor& buffer : module.buffers()) before_.emplace_back(buffer, buffer.clone());
  }
  ~OwnBuffers() {
    for (const auto& [buffer, before] : before_) buffer.copy_(before);
  }
  OwnBuffers(const OwnBuffers&) = delete;
  OwnBuffers& operator=(const OwnBuffers&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> before_;
};

/// A pass of the plain model: the mean over all samples or, if splits matter, over those of each rank.
inline void pass_of_all(const Kind& kind, torch::nn::Module& module, int64_t pass, int64_t step) {
  if (!kind.splits_matter) return kind.loss(module, all_samples(pass), step).backward();
  for (int rank = 0; rank < world().size(); ++rank) {
    const at::Tensor samples = samples_of(pass, rank);
    const OwnBuffers own(module, rank);
    seed(pass, rank);
    (kind.loss(module, samples, step) / world().size()).backward();
  }
}

inline void expect_training_equal(const Kind& kind, const std::string& optimizer, const FullyShardedOptions& options, int64_t passes = 1) {
  const auto reference = kind.make();
  const auto reference_optimizer = make_optimizer(optimizer, each_once(reference->parameters()));
  const auto net = kind.make();
  FullySharded sharded(world(), *net, options);
  const auto ours = make_optimizer(optimizer, sharded.slices());
  const std::string what = concat(kind.name, ", ", optimizer, ", ", text_of(options));
  for (int64_t step = 0; step < steps; ++step) {
    reference_optimizer->zero_grad();
    ours->zero_grad();
    for (int64_t pass = passes * step; pass < passes * (step + 1); ++pass) {
      pass_of_all(kind, *reference, pass, step);
      const at::Tensor samples = my_samples(pass);
      seed(pass, world().rank());
      kind.loss(*net, samples, step).backward();
    }
    // An evaluation leaves units gathered, which the update invalidates.
    for (const bool updated : {false, true}) {
      if (updated) reference_optimizer->step();
      if (updated) ours->step();
      const at::NoGradGuard no_grad;
      const auto evaluated = [&](torch::nn::Module& module) {
        const at::Tensor samples = all_samples(step);
        seed(step, 0);
        return kind.loss(module, samples, step).item<double>();
      };
      EXPECT_NEAR(evaluated(*net), evaluated(*reference), 1e-10) << what;
    }
  }
  expect_equal(*net, *reference, what);
}

/// The plain kind, for tests of errors in a step.
struct ShardedNet {
  explicit ShardedNet(int64_t unit_bytes = 1)
      : net(plain().make()), sharded(world(), *net, {.reduction = Reduction::mean, .unit_bytes = unit_bytes}), optimizer(sharded.slices(), 0.1) {}
  at::Tensor loss(int64_t step = 0) { return plain().loss(*net, my_samples(step), step); }
  at::Tensor parameter(const std::string& name) const { return net->named_parameters()[name]; }

  std::shared_ptr<torch::nn::Module> net;
  FullySharded sharded;
  torch::optim::SGD optimizer;
};

}  // namespace tw::testing::sharded
