// SPDX-License-Identifier: Apache-2.0
#include <tw/data_parallel/sync_batch_norm.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <ostream>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/data_parallel/idle_pass.hpp>
#include <tw/mpi/library.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "reducer_hook.hpp"

namespace tw {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// Over the samples of all ranks.
struct Statistics {
  at::Tensor mean;      ///< [C]
  at::Tensor variance;  ///< [C], biased
  double count = 0;     ///< values per channel
};

/// Collective. Bitwise equal on all ranks. @param has_samples whether this rank's rows count
Statistics statistics_of(const Communicator& comm, const at::Tensor& input, bool has_samples) {
  const int64_t channels = input.size(1);
  // Reduces the count on the host, too, where it is read without waiting for a device.
  const int64_t values = has_samples ? input.numel() / channels : 0;
  const at::Tensor total = at::scalar_tensor(static_cast<double>(values), at::TensorOptions().dtype(at::kDouble));
  Work counting = iallreduce(comm, total, ReduceOp::sum);
  const at::Tensor mine = at::zeros({1 + 2 * channels}, input.options().dtype(at::kDouble));  // count, means, variances
  if (values > 0) {
    std::vector<int64_t> dimensions{0};
    for (int64_t d = 2; d < input.dim(); ++d) dimensions.push_back(d);
    const auto [variance, mean] = at::var_mean(input, dimensions, std::optional<at::Scalar>(0));
    mine[0].fill_(values);
    mine.narrow(0, 1, channels).copy_(mean);
    mine.narrow(0, 1 + channels, channels).copy_(variance);
  }
  const at::Tensor all = at::empty({comm.size(), mine.size(0)}, mine.options());
  allgather(comm, mine, all);

  const at::Tensor counts = all.narrow(1, 0, 1);                       // [P, 1]
  const at::Tensor means = all.narrow(1, 1, channels);                 // [P, C]
  const at::Tensor variances = all.narrow(1, 1 + channels, channels);  // [P, C]
  counting.wait();
  const double count = total.item<double>();
  TW_EXPECTS(count > 1, "batch statistics need at least 2 values per channel over all ranks of '", comm.name(), "', got ", count);
  const at::Tensor mean = (counts * means).sum(0) / count;
  const at::Tensor variance = (counts * (variances + (means - mean).square())).sum(0) / count;
  return {mean.to(input.scalar_type()), variance.to(input.scalar_type()), count};
}

/// What a backward pass needs in addition to tensors.
struct Setting : torch::CustomClassHolder {
  Setting(std::shared_ptr<const Communicator> comm, double values, double of_weight, double of_eps, bool with_samples)
      : communicator(std::move(comm)), count(values), weight(of_weight), eps(of_eps), has_samples(with_samples) {}
  std::shared_ptr<const Communicator> communicator;
  double count;   ///< values per channel, over all ranks
  double weight;  ///< of this rank's loss, up to a common factor
  double eps;
  bool has_samples;
};

/// The input, or one row of zeros if it is empty: a rank without rows must run the other ranks' operators, which may have sharded parameters.
Variable some_rows(const Variable& input) { return input.numel() > 0 ? input : at::zeros({1, input.size(1)}, input.options()); }

struct Normalise : torch::autograd::Function<Normalise> {
  static Variable forward(AutogradContext* context, const Variable& input, const std::optional<Variable>& weight, const std::optional<Variable>& bias,
                          const Variable& mean, const Variable& variance, const c10::intrusive_ptr<Setting>& setting) {
    context->save_for_backward({input, weight.value_or(Variable()), mean, variance});
    context->saved_data["setting"] = c10::IValue::make_capsule(setting);
    const Variable output = std::get<0>(at::native_batch_norm(some_rows(input), weight, bias, mean, variance, false, 0, setting->eps));
    return input.numel() > 0 ? output : at::empty_like(input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TW_EXPECTS(!at::GradMode::is_enabled(), "SyncBatchNorm cannot be differentiated twice: do not call backward(create_graph = true)");
    const auto setting = c10::static_intrusive_pointer_cast<Setting>(context->saved_data["setting"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    const Variable& input = saved[0];
    const Variable& weight = saved[1];
    const Variable& mean = saved[2];
    const Variable& variance = saved[3];

    // With mean and variance as constants: s g, sum g x^, sum g, over this rank's samples and gradients.
    const Variable rows = some_rows(input);
    const Variable gradient = input.numel() > 0 ? gradients[0] : at::zeros_like(rows);
    // CUDA accepts no undefined tensors, neither here nor for the weight if its gradient is needed.
    const Variable none = at::empty({0}, mean.options());
    const Variable factors = weight.defined() ? weight : at::ones_like(mean);
    auto [of_input, of_weight, of_bias] =
        at::native_batch_norm_backward(gradient, rows, factors, mean, variance, none, none, false, setting->eps, {true, true, true});
    if (!setting->has_samples) {
      of_input = at::zeros_like(input);
      of_weight.zero_();
      of_bias.zero_();
    }
    if (context->needs_input_grad(0)) subtract_what_statistics_carry(of_input, of_weight, of_bias, saved, *setting);
    const bool affine = weight.defined();
    return {of_input, affine ? of_weight : Variable(), affine ? of_bias : Variable(), Variable(), Variable(), Variable()};
  }

  // s (sum_j g_j + x^ sum_j g_j x^_j) / N, with the sums over all ranks, weighted by rank.
  static void subtract_what_statistics_carry(const Variable& of_input, const Variable& of_weight, const Variable& of_bias, const variable_list& saved,
                                             const Setting& setting) {
    const Variable sums = at::stack({of_bias, of_weight}).to(at::kDouble) * setting.weight;  // [2, C]
    allreduce(*setting.communicator, sums, ReduceOp::sum);
    const Variable& input = saved[0];
    if (!setting.has_samples) return;
    std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
    shape[1] = input.size(1);
    const auto by_channel = [&](const Variable& values) { return values.to(input.scalar_type()).view(shape); };

    const Variable& weight = saved[1];
    const Variable& mean = saved[2];
    const Variable inverse_deviation = (saved[3] + setting.eps).rsqrt();
    const Variable scale = weight.defined() ? inverse_deviation * weight : inverse_deviation;
    const Variable shares = sums / (setting.weight * setting.count);
    of_input.sub_((input - by_channel(mean)).mul_(by_channel(scale * inverse_deviation * shares[1])).add_(by_channel(scale * shares[0])));
  }
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const Communicator& comm, const torch::nn::BatchNormOptions& of_options, Reduction reduction)
    : NormImplBase(of_options), comm_(std::make_shared<const Communicator>(mpi::share(comm))), reduction_(reduction) {
  expect_chosen(reduction);
  TW_EXPECTS(options.num_features() > 0, "SyncBatchNorm needs at least 1 feature, got ", options.num_features());
}

void SyncBatchNormImpl::_check_input_dim(const torch::Tensor& input) {
  TW_EXPECTS(input.dim() >= 2 && input.size(1) == options.num_features(), "SyncBatchNorm takes [N, ", options.num_features(), ", ...], got ",
             shape_text(input.sizes().vec()));
  TW_EXPECTS(input.scalar_type() == at::kFloat || input.scalar_type() == at::kDouble, "SyncBatchNorm takes float32 or float64, got ",
             dtype_name(input.scalar_type()));
}

torch::Tensor SyncBatchNormImpl::forward(const torch::Tensor& input) {
  _check_input_dim(input);
  expect_own_reduction();
  if (!is_training() && options.track_running_stats()) {
    return at::batch_norm(input, weight, bias, running_mean, running_var, false, 0, options.eps(), false);
  }
  const bool has_samples = input.numel() > 0 && !IdlePass::in_progress();
  Statistics statistics;
  {
    const at::NoGradGuard no_grad;
    statistics = statistics_of(*comm_, input.detach(), has_samples);
    if (is_training() && options.track_running_stats()) {
      update_running_statistics(statistics.mean, statistics.variance * (statistics.count / (statistics.count - 1)));
    }
  }
  const double rank_weight = reduction_ == Reduction::sample_weighted ? static_cast<double>(input.size(0)) : 1;
  const auto if_affine = [this](const torch::Tensor& parameter) { return options.affine() ? std::optional(parameter) : std::nullopt; };
  return Normalise::apply(input, if_affine(weight), if_affine(bias), statistics.mean, statistics.variance,
                          c10::make_intrusive<Setting>(comm_, statistics.count, rank_weight, options.eps(), has_samples));
}

// If a DataParallel reduces the weight's gradient, its reduction is known.
void SyncBatchNormImpl::expect_own_reduction() const {
  if (!options.affine()) return;
  for (const Reduction reduction : reductions_of(weight)) {
    const bool fits = (reduction == Reduction::sample_weighted) == (reduction_ == Reduction::sample_weighted);
    TW_EXPECTS(fits, "a SyncBatchNorm was made for Reduction::", name_of(reduction_),
               ", but its weight's gradient is reduced by Reduction::", name_of(reduction), ": make it for that reduction");
  }
}

// Without a momentum: the mean over all batches.
void SyncBatchNormImpl::update_running_statistics(const torch::Tensor& mean, const torch::Tensor& unbiased_variance) {
  num_batches_tracked += 1;
  const at::Tensor momentum = options.momentum().has_value() ? at::scalar_tensor(*options.momentum(), at::TensorOptions().dtype(at::kDouble))
                                                             : num_batches_tracked.to(at::kDouble).reciprocal();
  running_mean.mul_(1 - momentum).add_(mean * momentum);
  running_var.mul_(1 - momentum).add_(unbiased_variance * momentum);
  for (const at::Tensor& buffer : {running_mean, running_var, num_batches_tracked}) IdlePass::keep(buffer);
}

void SyncBatchNormImpl::take_over(const torch::nn::Module& norm, const torch::Tensor& its_weight, const torch::Tensor& its_bias,
                                  const Buffers& buffers) {
  parameters_["weight"] = weight = its_weight;
  parameters_["bias"] = bias = its_bias;
  if (options.track_running_stats()) {
    running_mean.set_data(buffers.running_mean);
    running_var.set_data(buffers.running_var);
    num_batches_tracked.set_data(buffers.num_batches_tracked);
  }
  train(norm.is_training());
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "tw::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ", momentum=";
  if (options.momentum().has_value()) {
    stream << *options.momentum();
  } else {
    stream << "None";
  }
  stream << std::boolalpha << ", affine=" << options.affine() << ", track_running_stats=" << options.track_running_stats() << ')';
}

}  // namespace tw
