// SPDX-License-Identifier: Apache-2.0
// Training loops as users of LibTorch write them, for a plain model and for wrapped ones. All start with the same values and see the same samples.
#pragma once
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tw/data_parallel.hpp>
#include <tw/gradients/sharded_optimizer.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/parallel_model.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <vector>

namespace tw::testing::habits {

/// Faults that a model shall inject.
struct Faults {
  bool in_forward = false;
  bool in_backward = false;
};

struct DenseImpl : torch::nn::Cloneable<DenseImpl> {
  explicit DenseImpl(int64_t inputs = 6) : inputs_(inputs) { DenseImpl::reset(); }
  void reset() override {
    linear = register_module("linear", torch::nn::Linear(inputs_, 6));
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return torch::tanh(linear(x)); }
  torch::nn::Linear linear{nullptr};

 private:
  int64_t inputs_;
};
TORCH_MODULE(Dense);

/// Has a training mode, but neither parameters nor random numbers.
struct GateImpl : torch::nn::Cloneable<GateImpl> {
  void reset() override {}
  at::Tensor forward(const at::Tensor& x) const { return is_training() ? x * 0.5 : x; }
};
TORCH_MODULE(Gate);

struct HeadImpl : torch::nn::Cloneable<HeadImpl> {
  explicit HeadImpl(std::shared_ptr<Faults> faults) : faults_(std::move(faults)) { HeadImpl::reset(); }
  void reset() override {
    linear = register_module("linear", torch::nn::Linear(torch::nn::LinearOptions(6, 2).bias(false)));
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    if (faults_->in_forward) throw std::runtime_error("mine");
    const at::Tensor y = linear(x);
    if (faults_->in_backward && y.requires_grad()) {
      y.register_hook([](const at::Tensor& gradient) -> at::Tensor {
        if (gradient.defined()) throw std::runtime_error("mine");
        return gradient;
      });
    }
    return y;
  }
  torch::nn::Linear linear{nullptr};

 private:
  std::shared_ptr<Faults> faults_;
};
TORCH_MODULE(Head);

constexpr int64_t layers = 6;  // of the residual part

inline at::Tensor residual(DenseImpl& layer, const at::Tensor& u) { return u + layer.forward(u) * (1.0 / layers); }

/// A first layer, residual ones, a gate, and a last layer without bias.
struct NetImpl : torch::nn::Cloneable<NetImpl> {
  explicit NetImpl(std::shared_ptr<Faults> faults) : faults_(std::move(faults)) { NetImpl::reset(); }
  void reset() override {
    first = register_module("first", Dense(4));
    middle = register_module("middle", torch::nn::ModuleList());
    for (int64_t i = 0; i < layers; ++i) middle->push_back(Dense(6));
    gate = register_module("gate", Gate());
    head = register_module("head", Head(faults_));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor u = first(x);
    for (const auto& layer : *middle) u = residual(*layer->as<DenseImpl>(), u);
    return head(gate(u));
  }
  Dense first{nullptr};
  torch::nn::ModuleList middle{nullptr};
  Gate gate{nullptr};
  Head head{nullptr};

 private:
  std::shared_ptr<Faults> faults_;
};

inline at::Tensor mean_square(const at::Tensor& y, const at::Tensor& t) { return (y - t).square().mean(); }

/// A loop of training.
class Loop {
 public:
  virtual ~Loop() = default;

  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  std::shared_ptr<torch::optim::Optimizer> optimizer;  ///< LibTorch's
  std::vector<at::Tensor> updated;                     ///< the tensors it updates
  std::function<void()> after_step = [] {};
  std::vector<at::Tensor> outputs;  ///< that a habit has seen: compared, too

  /// The module that the user holds.
  virtual torch::nn::Module& module() = 0;
  /// The gate and the last layer; null on ranks without them.
  virtual torch::nn::Module* gate() = 0;
  virtual torch::nn::Module* head() = 0;
  /// A module of the same kind, initialised from `seed`, outside any strategy that reduces.
  virtual std::shared_ptr<torch::nn::Module> another_module(uint64_t seed) = 0;
  /// A second model trained in the same way.
  virtual std::unique_ptr<Loop> another() const = 0;
  /// The parameters of the whole model, at least on rank 0. Collective.
  virtual std::vector<at::Tensor> whole() { return module().parameters(); }

  at::Tensor loss(int64_t step = 0) {
    const at::Tensor x = samples(step);
    return loss_of(x, x.narrow(1, 0, 2));
  }
  virtual at::Tensor loss_of(const at::Tensor& x, const at::Tensor& targets) = 0;
  virtual at::Tensor output(const at::Tensor& x) = 0;
  virtual at::Tensor samples(int64_t step) const { return all_samples(step); }
  virtual void step() {
    optimizer->step();
    after_step();
  }
  /// A step that throws.
  virtual void failing_step() {
    optimizer->step([]() -> at::Tensor { throw std::runtime_error("mine"); });
  }
  virtual void zero_grad() { optimizer->zero_grad(); }
  /// The loss reduced over all ranks.
  virtual at::Tensor reduced(const at::Tensor& loss) const { return loss.detach(); }

  static at::Tensor all_samples(int64_t step) {
    torch::manual_seed(static_cast<uint64_t>(100 + step));
    return torch::randn({3 * world().size(), 4}, torch::kDouble);
  }

 protected:
  void update(std::vector<at::Tensor> tensors) {
    updated = std::move(tensors);
    optimizer = std::make_shared<torch::optim::SGD>(updated, 0.1);
  }
};

constexpr uint64_t first_seed = 11;

inline std::shared_ptr<NetImpl> make_net(uint64_t seed, const std::shared_ptr<Faults>& faults) {
  torch::manual_seed(seed);
  return std::make_shared<NetImpl>(faults);
}

/// For a module that each rank has whole.
class NetLoop : public Loop {
 public:
  std::shared_ptr<NetImpl> net = make_net(first_seed, faults);

  torch::nn::Module& module() override { return *net; }
  torch::nn::Module* gate() override { return net->gate.get(); }
  torch::nn::Module* head() override { return net->head.get(); }
  std::shared_ptr<torch::nn::Module> another_module(uint64_t seed) override { return make_net(seed, faults); }
  at::Tensor loss_of(const at::Tensor& x, const at::Tensor& targets) override { return mean_square(net->forward(x), targets); }
  at::Tensor output(const at::Tensor& x) override { return net->forward(x); }
};

/// One process with all samples.
struct PlainLoop : NetLoop {
  PlainLoop() { update(net->parameters()); }
  std::unique_ptr<Loop> another() const override { return std::make_unique<PlainLoop>(); }
};

/// Uses this rank's rows.
struct RanksLoop : NetLoop {
  at::Tensor samples(int64_t step) const override { return all_samples(step).narrow(0, 3 * world().rank(), 3); }
  at::Tensor reduced(const at::Tensor& loss) const override { return tw::reduced(world(), loss, Reduction::mean); }
};

struct DataParallelLoop : RanksLoop {
  DataParallelLoop() { update(net->parameters()); }
  std::unique_ptr<Loop> another() const override { return std::make_unique<DataParallelLoop>(); }
  DataParallel parallel{world(), *net, {.reduction = Reduction::mean}};
};

struct ShardedOptimizerLoop : RanksLoop {
  std::unique_ptr<Loop> another() const override { return std::make_unique<ShardedOptimizerLoop>(); }
  void step() override { sharded.step(); }
  void failing_step() override { sharded.step(); }  // its gradients are used up
  void zero_grad() override { sharded.zero_grad(); }
  DataParallel parallel{world(), *net, {.reduction = Reduction::mean, .sharding = Sharding::slices}};
  ShardedOptimizer sharded{parallel.reducer(), parallel.parameters(), [this](const std::vector<NamedTensor>& shards) {
                             for (const NamedTensor& each : shards) updated.push_back(each.tensor);
                             return std::make_unique<torch::optim::SGD>(updated, 0.1);
                           }};
};

struct FullyShardedLoop : RanksLoop {
  FullyShardedLoop() { update(sharded.slices()); }
  std::unique_ptr<Loop> another() const override { return std::make_unique<FullyShardedLoop>(); }
  FullySharded sharded{world(), *net, {.reduction = Reduction::mean, .unit_bytes = 1}};
};

/// With a period of one step and plain SGD, the mean of models equals a step with mean gradients.
struct LocalSgdLoop : RanksLoop {
  LocalSgdLoop() {
    update(net->parameters());
    after_step = [this] { local.step(); };
  }
  std::unique_ptr<Loop> another() const override { return std::make_unique<LocalSgdLoop>(); }
  LocalSgd local{world(), *net, {.period = 1}};
};

struct DiLoCoLoop : RanksLoop {
  DiLoCoLoop() {
    update(net->parameters());
    after_step = [this] { outer.step(); };
  }
  std::unique_ptr<Loop> another() const override { return std::make_unique<DiLoCoLoop>(); }
  DiLoCo outer{world(), *net, {.period = 1, .outer_learning_rate = 1, .outer_momentum = 0, .nesterov = false}};
};

/// One stage per rank. Ranks see all rows.
class PipelineLoop : public Loop {
 public:
  PipelineLoop() { update(pipeline->parameters()); }
  std::unique_ptr<Loop> another() const override { return std::make_unique<PipelineLoop>(); }
  torch::nn::Module& module() override { return *pipeline; }
  torch::nn::Module* gate() override { return part(std::to_string(layers + 1)); }
  torch::nn::Module* head() override { return part(std::to_string(layers + 2)); }
  std::shared_ptr<torch::nn::Module> another_module(uint64_t seed) override { return make(seed); }
  std::vector<at::Tensor> whole() override {
    std::vector<at::Tensor> parameters;
    for (const NamedTensor& each : pipeline->whole_on_root()) parameters.push_back(each.tensor);
    return parameters;
  }
  /// The backward pass has run already; calling backward() on the result has no further effect.
  at::Tensor loss_of(const at::Tensor& x, const at::Tensor& targets) override {
    return at::tensor(pipeline->run(x, targets, mean_square), at::kDouble).set_requires_grad(true);
  }
  at::Tensor output(const at::Tensor& x) override { return pipeline->forward(x); }

 private:
  std::shared_ptr<pipeline::Pipeline> make(uint64_t seed) const {
    const auto layer = []() -> pipeline::Block {
      const Dense dense(6);
      return {dense.ptr(), [dense](const at::Tensor& u) { return residual(*dense.ptr(), u); }};
    };
    std::vector<pipeline::BlockFactory> blocks{pipeline::block([] { return Dense(4); })};
    blocks.insert(blocks.end(), layers, layer);
    blocks.push_back(pipeline::block([] { return Gate(); }));
    blocks.push_back(pipeline::block([faults = faults] { return Head(faults); }));
    torch::manual_seed(seed);
    return std::make_shared<pipeline::Pipeline>(world(), blocks,
                                                pipeline::PipelineOptions{.schedule = pipeline::one_forward_one_backward(world().size(), 2)});
  }
  torch::nn::Module* part(const std::string& name) const {
    const auto parts = pipeline->named_children();
    const auto* found = parts.find(name);
    return found == nullptr ? nullptr : found->get();
  }

  std::shared_ptr<pipeline::Pipeline> pipeline = make(first_seed);
};

/// Enough iterations to be exact. Ranks see all rows.
class LayerParallelLoop : public Loop {
 public:
  LayerParallelLoop() { update(net->parameters()); }
  std::unique_ptr<Loop> another() const override { return std::make_unique<LayerParallelLoop>(); }
  torch::nn::Module& module() override { return *net; }
  torch::nn::Module* gate() override { return part("2"); }
  torch::nn::Module* head() override { return part("3"); }
  std::shared_ptr<torch::nn::Module> another_module(uint64_t seed) override { return make(seed); }
  std::vector<at::Tensor> whole() override {
    const auto serial = net->serial_on_root();
    return serial ? serial->parameters() : std::vector<at::Tensor>();
  }
  at::Tensor loss_of(const at::Tensor& x, const at::Tensor& targets) override { return mean_square(net->forward(x), targets); }
  at::Tensor output(const at::Tensor& x) override { return net->forward(x); }

 private:
  /// Initialised with the values of a plain net.
  std::shared_ptr<layer_parallel::LayerParallel> make(uint64_t seed) const {
    const auto values = make_net(seed, faults);
    const auto like = [](auto made, const torch::nn::Module& source) {
      const torch::NoGradGuard no_grad;
      for (size_t i = 0; i < source.parameters().size(); ++i) made->parameters()[i].copy_(source.parameters()[i]);
      return made;
    };
    using layer_parallel::block;
    return std::make_shared<layer_parallel::LayerParallel>(
        world(),
        std::vector<layer_parallel::Block>{block([=] { return like(Dense(4), *values->first); }, 1),
                                           block([=](int64_t i) { return like(Dense(6), *values->middle[static_cast<size_t>(i)]); }, layers),
                                           block([] { return Gate(); }, 1), block([=, this] { return like(Head(faults), *values->head); }, 1)},
        layer_parallel::LayerParallelOptions{
            .coarsening = 2, .min_coarse = 1, .forward = {.iterations = layers}, .backward = {.iterations = layers}});
  }
  torch::nn::Module* part(const std::string& name) const {
    const auto parts = net->named_children();
    const auto* found = parts.find(name);
    return found == nullptr ? nullptr : found->get();
  }

  std::shared_ptr<layer_parallel::LayerParallel> net = make(first_seed);
};

/// A ParallelModel along one axis. Along `stage` ranks see all rows.
class ParallelModelLoop : public NetLoop {
 public:
  explicit ParallelModelLoop(const std::string& axis)
      : axis_(axis), mesh_(world(), {{axis, -1}}), model_(parallelize(mesh_, *net, {all_samples(0)}, {.micro_batches = 2})) {
    update(model_.parameters());
  }
  std::unique_ptr<Loop> another() const override { return std::make_unique<ParallelModelLoop>(axis_); }
  std::vector<at::Tensor> whole() override {
    std::map<std::string, at::Tensor> values;
    for (const NamedTensor& each : model_.whole_on_root()) values[each.name] = each.tensor;
    std::vector<at::Tensor> parameters;
    if (world().rank() != 0) return parameters;
    for (const auto& each : net->named_parameters()) parameters.push_back(values.at(each.key()));
    return parameters;
  }
  at::Tensor samples(int64_t step) const override {
    return axis_ == "stage" ? all_samples(step) : all_samples(step).narrow(0, 3 * world().rank(), 3);
  }
  /// The backward pass has run already; calling backward() on the result has no further effect.
  at::Tensor loss_of(const at::Tensor& x, const at::Tensor& targets) override {
    return at::tensor(model_.train_step(x, targets, mean_square), at::kDouble).set_requires_grad(true);
  }
  at::Tensor output(const at::Tensor& x) override { return model_.forward(x); }

 private:
  std::string axis_;
  Mesh mesh_;
  ParallelModel model_;
};

}  // namespace tw::testing::habits
