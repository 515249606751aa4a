// SPDX-License-Identifier: Apache-2.0
#include <tw/layer_training/mgopt.hpp>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <map>
#include <ostream>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/revoke_on_exception.hpp>

#include "layer_transfer.hpp"
#include "mgopt_cycle.hpp"

namespace tw::layer_training {

using layer_parallel::LayerParallel;

namespace {

/// A network's parameters, including those that are not trained, because coarser networks need them too.
struct Parameters {
  std::vector<at::Tensor> tensors;
  std::vector<RowPart> parts;
};

Parameters parameters_of(const LayerParallel& net) {
  Parameters all;
  for (const OptimizedTensor& parameter : net.optimized_tensors()) {
    all.tensors.push_back(parameter.tensor);
    all.parts.push_back(part_of(parameter.slices.at(0)));
  }
  return all;
}

/// Number of layers of each ODE block, by block name.
std::map<std::string, int64_t> depths_of(const LayerParallel& net, const PartsByRank& parts) {
  std::map<std::string, int64_t> depths;
  for (const auto& of_rank : parts) {
    for (const RowPart& part : of_rank) {
      if (is_of_layers(net, part.name)) depths[part.name.substr(0, part.name.find('.'))] = part.shape[0];
    }
  }
  return depths;
}

/// Checks that network `level` can be coarsened to the next one. @param fine, coarse parts of all ranks of both
void expect_refinement(size_t level, const LayerParallel& fine_net, const PartsByRank& fine, const LayerParallel& coarse_net,
                       const PartsByRank& coarse) {
  const std::map<std::string, int64_t> coarse_depths = depths_of(coarse_net, coarse);
  for (const auto& [block, layers] : depths_of(fine_net, fine)) {
    const auto found = coarse_depths.find(block);
    TW_EXPECTS(found != coarse_depths.end(), "block ", block, " is an ODE block of network ", level, ", but not of network ", level + 1);
    TW_EXPECTS(layers % found->second == 0, "block ", block, " has ", layers, " layers in network ", level, " and ", found->second, " in network ",
               level + 1, ": each network must have a multiple of the layers of the next");
  }
  const auto expect_in = [](const PartsByRank& there, size_t index, const RowPart& part) {
    const RowPart* found = find_part(there, part.name);
    TW_EXPECTS(found != nullptr && found->dtype == part.dtype, "network ", index, " has no parameter '", part.name,
               "' with the dtype that it has in the adjacent network");
    return *found;
  };
  for (const auto& of_rank : fine) {
    for (const RowPart& part : of_rank) layers_for_one(part, expect_in(coarse, level + 1, part), is_of_layers(fine_net, part.name));
  }
  for (const auto& of_rank : coarse) {
    for (const RowPart& part : of_rank) expect_in(fine, level, part);
  }
}

}  // namespace

class MgOpt::Impl {
 public:
  Impl(std::vector<std::shared_ptr<LayerParallel>> networks, const MgOptOptions& options);
  MgOptReport step(const at::Tensor& inputs, const at::Tensor& targets, const LossFunction& loss);

  const MgOptOptions options;

 private:
  Evaluation evaluate(size_t level, const Vector& x, bool with_gradient);
  double inner(const Vector& a, const Vector& b) const;
  Vector restricted(size_t level, const Vector& fine, bool sum) const;
  Vector prolonged(size_t level, const Vector& coarse) const;
  const Communicator& comm() const { return networks_.front()->comm(); }

  const std::vector<std::shared_ptr<LayerParallel>> networks_;
  std::vector<Parameters> parameters_;  // by level
  std::vector<RowExchange> down_;       // from each level to the next coarser one
  std::vector<RowExchange> up_;         // from each level back to the finer one
  std::vector<MgOptLevel> levels_;
  int64_t steps_ = 0;
  // The current batch.
  const at::Tensor* inputs_ = nullptr;
  const at::Tensor* targets_ = nullptr;
  const LossFunction* loss_ = nullptr;
};

MgOpt::Impl::Impl(std::vector<std::shared_ptr<LayerParallel>> networks, const MgOptOptions& given) : options(given), networks_(std::move(networks)) {
  TW_EXPECTS(networks_.size() >= 2, "MG/OPT needs at least two networks, got ", networks_.size());
  for (const auto& net : networks_) TW_EXPECTS(net != nullptr, "networks must not be null");
  expect_same_on_all_ranks(comm(), "the options of an MgOpt", value_lines(options));
  options.validate();
  std::vector<PartsByRank> parts;
  for (const auto& net : networks_) {
    parameters_.push_back(parameters_of(*net));
    parts.push_back(gather_parts(comm(), parameters_.back().parts));
  }
  // From here on all ranks see the same data, and throw alike.
  std::vector<int64_t> layers;
  for (size_t l = 0; l < networks_.size(); ++l) {
    if (l + 1 < networks_.size()) expect_refinement(l, *networks_[l], parts[l], *networks_[l + 1], parts[l + 1]);
    layers.push_back(0);
    for (const auto& [block, depth] : depths_of(*networks_[l], parts[l])) layers.back() += depth;
  }
  const auto exchange = [&](size_t from, size_t to) {
    PartsByRank wants(parts[to].size());
    for (size_t rank = 0; rank < wants.size(); ++rank) {
      for (const RowPart& part : parts[to][rank]) {
        const RowPart& there = *find_part(parts[from], part.name);
        wants[rank].push_back(from < to ? fine_rows(part, there) : coarse_rows(part, there, Refinement::constant));
      }
    }
    return RowExchange(comm().rank(), parts[from], wants);
  };
  for (size_t l = 0; l < networks_.size(); ++l) {
    MgOptLevel& level = levels_.emplace_back();
    level.evaluate = [this, l](const Vector& x, bool with_gradient) { return evaluate(l, x, with_gradient); };
    level.inner = [this](const Vector& a, const Vector& b) { return inner(a, b); };
    level.cost = static_cast<double>(layers[l]) / static_cast<double>(layers[0]);
    if (l + 1 == networks_.size()) break;
    down_.push_back(exchange(l, l + 1));
    up_.push_back(exchange(l + 1, l));
    level.restrict_point = [this, l](const Vector& x) { return restricted(l, x, false); };
    level.restrict_gradient = [this, l](const Vector& g) { return restricted(l, g, true); };
    level.prolong = [this, l](const Vector& e) { return prolonged(l, e); };
  }
}

Evaluation MgOpt::Impl::evaluate(size_t level, const Vector& x, bool with_gradient) {
  LayerParallel& net = *networks_[level];
  const std::vector<at::Tensor>& tensors = parameters_[level].tensors;
  for (size_t i = 0; i < x.size(); ++i) {
    tensors[i].detach().copy_(x[i]);
    tensors[i].mutable_grad() = at::Tensor();
  }
  net.set_calls(steps_);
  const c10::AutoGradMode gradients(with_gradient);
  const at::Tensor loss = (*loss_)(net.forward(*inputs_), *targets_);
  if (with_gradient) loss.backward();
  const at::Tensor value = loss.detach().to(at::kDouble).clone();
  broadcast(comm(), value, Rank(0));
  Evaluation result{value.item<double>(), {}};
  for (size_t i = 0; with_gradient && i < x.size(); ++i) {
    result.gradient.push_back(tensors[i].grad().defined() ? tensors[i].grad() : at::zeros_like(x[i]));
    tensors[i].mutable_grad() = at::Tensor();
  }
  return result;
}

double MgOpt::Impl::inner(const Vector& a, const Vector& b) const {
  const at::Tensor sum = at::zeros({}, at::kDouble);
  for (size_t i = 0; i < a.size(); ++i) sum.add_(a[i].to(at::kDouble).mul(b[i]).sum().cpu());
  allreduce(comm(), sum, ReduceOp::sum);
  return sum.item<double>();
}

Vector MgOpt::Impl::restricted(size_t level, const Vector& fine, bool sum) const {
  const Parameters& coarse = parameters_[level + 1];
  Vector result = down_[level](comm(), fine, coarse.tensors);
  for (size_t i = 0; i < result.size(); ++i) {
    at::Tensor& rows = result[i];
    const int64_t count = coarse.parts[i].end - coarse.parts[i].begin;
    if (rows.size(0) != count) {
      const at::Tensor children = rows.unflatten(0, {count, rows.size(0) / count});
      rows = sum ? children.sum(1) : children.mean(1);
    }
    rows = rows.view_as(coarse.tensors[i]);
  }
  return result;
}

Vector MgOpt::Impl::prolonged(size_t level, const Vector& coarse) const {
  const Parameters& fine = parameters_[level];
  const RowExchange& exchange = up_[level];
  Vector result = exchange(comm(), coarse, fine.tensors);
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = refined(result[i], exchange.wants()[i], fine.parts[i], Refinement::constant).view_as(fine.tensors[i]);
  }
  return result;
}

MgOptReport MgOpt::Impl::step(const at::Tensor& inputs, const at::Tensor& targets, const LossFunction& loss) {
  inputs_ = &inputs;
  targets_ = &targets;
  loss_ = &loss;
  const c10::AutoGradMode no_gradients(false);
  return revoke_on_exception(comm(), [&] {
    Vector x;
    for (const at::Tensor& parameter : parameters_[0].tensors) x.push_back(parameter.detach().clone());
    const MgOptReport report = mgopt_cycle(levels_, options, x);
    for (size_t i = 0; i < x.size(); ++i) parameters_[0].tensors[i].detach().copy_(x[i]);
    ++steps_;
    return report;
  });
}

void MgOptOptions::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(!learning_rate.values().empty(), "learning_rate must have at least one value");
}

void visit(MgOptOptions& options, OptionVisitor& visitor) {
  visit_field(visitor, "learning_rate", options.learning_rate, {.least = 0, .excludes_least = true},
              {.meaning = "learning rate of the gradient steps, by level"});
  visitor.field("pre_steps", options.pre_steps, at_least(0), {.meaning = "gradient steps of a level before its coarse correction"});
  visitor.field("post_steps", options.post_steps, at_least(0), {.meaning = "gradient steps of a level after its coarse correction"});
  visitor.field("coarse_steps", options.coarse_steps, at_least(1), {.meaning = "gradient steps of the coarsest level"});
  visitor.field("halvings", options.halvings, at_least(0, 60),
                {.meaning = "largest number of halvings of a correction that does not reduce the objective enough"});
}

std::ostream& operator<<(std::ostream& out, const MgOptReport& report) {
  out << "loss " << report.loss_before << " -> " << report.loss_after << ", work " << report.work;
  for (size_t l = 0; l < report.corrections.size(); ++l) {
    const MgOptReport::Correction& correction = report.corrections[l];
    out << "; level " << l << ": ";
    correction.is_cancelled() ? out << "cancelled" : out << "alpha " << correction.alpha;
  }
  return out << '\n';
}

MgOpt::MgOpt(std::vector<std::shared_ptr<LayerParallel>> networks, const MgOptOptions& options)
    : impl_(std::make_unique<Impl>(std::move(networks), options)) {}
MgOpt::~MgOpt() = default;

MgOptReport MgOpt::step(const at::Tensor& inputs, const at::Tensor& targets, const LossFunction& loss) { return impl_->step(inputs, targets, loss); }

const MgOptOptions& MgOpt::options() const noexcept { return impl_->options; }

}  // namespace tw::layer_training
