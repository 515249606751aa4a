// SPDX-License-Identifier: Apache-2.0
// Fully sharded models of many kinds against one process with all samples.
#include <tw/autograd/recomputed.hpp>
#include <tw/models/gpt.hpp>

#include "sharded_training.hpp"
#include "subjects.hpp"

namespace sharded_models_test {

using namespace tw::testing::sharded;
using tw::testing::world;
using Tensors = std::vector<at::Tensor>;

/// Small units, gathered on use and prefetched, and one copy per node.
std::vector<tw::FullyShardedOptions> some_modes(tw::Reduction reduction) {
  std::vector<tw::FullyShardedOptions> all{{.reduction = reduction, .unit_bytes = 1},
                                           {.reduction = reduction, .unit_bytes = 300, .prefetch_units = 2}};
  if (tw::find_topology(world()).nodes == 1) all.push_back({.reduction = reduction, .unit_bytes = 300, .one_copy_per_node = true});
  return all;
}

/// Rows [begin, end) of the ten that this rank has: 4, 3 and 3 with three ranks.
struct Rows {
  explicit Rows(int rank) : begin(rank * least + std::min(rank, more)), count(least + (rank < more ? 1 : 0)) {}
  Tensors of(const Tensors& batch) const {
    Tensors mine;
    for (const at::Tensor& all : batch) mine.push_back(all.narrow(0, begin, count));
    return mine;
  }
  int least = static_cast<int>(tw::testing::subjects::rows) / world().size();
  int more = static_cast<int>(tw::testing::subjects::rows) % world().size();
  int64_t begin;
  int64_t count;
};

at::Tensor loss_of(const tw::testing::subjects::Subject& subject, const Rows& rows, int64_t step, int rank) {
  seed(step, rank);
  return subject.loss(subject.forward(rows.of(subject.inputs)), rows.of(subject.targets));
}

// The models that planned_model_test cuts into stages. Ranks have 2 to 10 rows and weight their means accordingly. Batch norms and dropout see one
// rank's rows, and each rank keeps its own running statistics.
TEST(ShardedModels, TheTenOfPipelines) {
  for (const auto subject : tw::testing::subjects::all) {
    const auto made = [&] {
      torch::manual_seed(3);
      return subject();
    };
    for (const tw::FullyShardedOptions& options : some_modes(tw::Reduction::sample_weighted)) {
      const auto reference = made();
      const auto reference_optimizer = tw::testing::make_optimizer("SGD", reference.module->parameters());
      const auto ours = made();
      tw::FullySharded sharded(world(), *ours.module, options);
      const auto optimizer = tw::testing::make_optimizer("SGD", sharded.slices());
      const std::string what = tw::concat(ours.name, ", ", text_of(options));
      for (int64_t step = 0; step < 3; ++step) {
        reference_optimizer->zero_grad();
        optimizer->zero_grad();
        if (reference.splits_matter || reference.name == "dropout") {
          for (int rank = 0; rank < world().size(); ++rank) {
            const OwnBuffers own(*reference.module, rank);
            (loss_of(reference, Rows(rank), step, rank) * (static_cast<double>(Rows(rank).count) / tw::testing::subjects::rows)).backward();
          }
        } else {
          reference.loss(reference.forward(reference.inputs), reference.targets).backward();
        }
        sharded.parallel().set_samples(Rows(world().rank()).count);
        loss_of(ours, Rows(world().rank()), step, world().rank()).backward();
        reference_optimizer->step();
        optimizer->step();
      }
      expect_equal(*ours.module, *reference.module, what);
    }
  }
}

at::Tensor tokens_of(const at::Tensor& x) { return (x.abs() * 5).to(torch::kLong).remainder(7); }

struct GruImpl : torch::nn::Module {
  GruImpl() : gru(register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(2, 5).num_layers(2).dropout(0.3).batch_first(true)))) {}
  at::Tensor forward(const at::Tensor& x) { return std::get<0>(gru->forward(x.view({-1, 4, 2}))); }
  torch::nn::GRU gru;
};

struct LstmWithProjectionImpl : torch::nn::Module {
  LstmWithProjectionImpl()
      : lstm(register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(2, 5).num_layers(2).proj_size(3)))),
        cell(register_module("cell", torch::nn::LSTMCell(3, 2))) {}
  at::Tensor forward(const at::Tensor& x) {
    const auto [y, state] = lstm->forward(x.view({-1, 4, 2}).transpose(0, 1));
    return std::get<1>(cell->forward(y[3])) + std::get<1>(state).sum(0).mean(1, true);
  }
  torch::nn::LSTM lstm;
  torch::nn::LSTMCell cell;
};

/// Its head uses the embedding's weight.
struct GptImpl : torch::nn::Module {
  GptImpl()
      : gpt(register_module("gpt", tw::models::Gpt(tw::models::GptOptions{.vocabulary = 7, .context = 8, .width = 8, .heads = 2, .blocks = 2}))) {}
  at::Tensor forward(const at::Tensor& x) { return gpt->forward(tokens_of(x)); }
  tw::models::Gpt gpt;
};

struct BagImpl : torch::nn::Module {
  BagImpl()
      : mean(register_module("mean", torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(7, 5).mode(torch::kMean)))),
        most(register_module("most", torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(7, 5).mode(torch::kMax)))),
        weighted(register_module("weighted", torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(7, 5).mode(torch::kSum)))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor tokens = tokens_of(x);
    return mean->forward(tokens) * most->forward(tokens) + weighted->forward(tokens, {}, torch::sigmoid(x));
  }
  torch::nn::EmbeddingBag mean, most, weighted;
};

struct InPlaceImpl : torch::nn::Module {
  InPlaceImpl()
      : first(register_module("first", torch::nn::Linear(8, 6))),
        scale(register_parameter("scale", torch::rand({6}))),
        last(register_module("last", torch::nn::Linear(6, 6))) {}
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = first->forward(x);
    y.add_(0.5).tanh_();
    y = last->forward(y.clone().relu_());
    y.narrow(1, 0, 3).mul_(scale.narrow(0, 2, 3));
    at::Tensor all = torch::zeros({2, y.size(0), 6}, y.options());
    all[0].copy_(y.sin());
    all[1].copy_(first->bias.expand_as(y));
    return all;
  }
  torch::nn::Linear first;
  at::Tensor scale;
  torch::nn::Linear last;
};

/// Weights computed from parameters.
struct ComputedImpl : torch::nn::Module {
  ComputedImpl()
      : v(register_parameter("v", torch::randn({6, 8}) / 3)),
        g(register_parameter("g", torch::rand({6, 1}))),
        a(register_parameter("a", torch::randn({2, 6}) / 3)),
        b(register_parameter("b", torch::randn({3, 6}) / 3)),
        mask(register_buffer("mask", torch::ones({5, 6}).tril(1))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = torch::nn::functional::linear(x, torch::_weight_norm(v, g, 0)) + at::linear(x, v * (g / v.norm(2, 1, true))).sin();
    return at::linear(torch::tanh(y), torch::cat({a, b}) * mask) + torch::einsum("ni,ji,k->nk", {y, a, b.prod(1).repeat({2}).narrow(0, 0, 5)});
  }
  at::Tensor v, g, a, b, mask;
};

/// Parts of one parameter through all kinds of views, some of them kept between uses.
struct ViewsImpl : torch::nn::Module {
  ViewsImpl() : w(register_parameter("w", torch::randn({8, 12}) / 3)), other(register_parameter("other", torch::randn({4, 4}) / 2)) {}
  at::Tensor forward(const at::Tensor& x) {
    const Tensors parts = w.chunk(3, 1);                     // [8, 4] each
    const at::Tensor q = at::linear(x, parts[0].t());        // [n, 4]
    const at::Tensor k = x.matmul(w.narrow(1, 4, 4));        // the second part
    const at::Tensor row = w.select(0, 3).view({3, 4});      // with elements of the first part
    at::Tensor y = torch::tanh(q * k + x.matmul(parts[2]));  // a view made before `other` was used
    y = torch::tanh(at::linear(y, other)) + at::linear(y, other.as_strided({4, 4}, {1, 4}));
    y = y.matmul(row.t()).matmul(w.index({torch::indexing::Slice(0, 3), torch::indexing::Slice(0, 8, 2)}));
    for (const at::Tensor& column : other.unbind(1)) y = y + torch::sigmoid(y * column);
    return y + w.flatten().unfold(0, 4, 8).sum(0) + other.diagonal();
  }
  at::Tensor w, other;
};

/// Parameters without elements, with one element, and unused ones.
struct SmallImpl : torch::nn::Module {
  SmallImpl()
      : nothing(register_parameter("nothing", torch::empty({0, 8}))),
        number(register_parameter("number", torch::tensor(0.7))),
        first(register_module("first", torch::nn::Linear(8, 3))),
        one(register_parameter("one", torch::tensor({0.3}))),
        unused(register_parameter("unused", torch::empty({3, 0}))) {}
  at::Tensor forward(const at::Tensor& x) {
    return first->forward(torch::cat({x * number, nothing})).tanh() + one * number + torch::nn::functional::linear(x, nothing).sum();
  }
  at::Tensor nothing, number;
  torch::nn::Linear first;
  at::Tensor one, unused;
};

/// Parameters whose elements are not in memory order.
struct TurnedImpl : torch::nn::Module {
  TurnedImpl()
      : turned(register_parameter("turned", (torch::randn({5, 8}) / 4).t())),
        strided(register_parameter("strided", (torch::randn({5, 12}) / 4).slice(1, 0, 12, 2))),
        permuted(register_parameter("permuted", (torch::randn({2, 3, 6}) / 4).permute({2, 0, 1}))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = torch::tanh(x.matmul(turned)).matmul(strided);  // [n, 6]
    return torch::einsum("ni,ijk->njk", {y, permuted}) + y.matmul(permuted.reshape({6, 6})).view({-1, 2, 3});
  }
  at::Tensor turned, strided, permuted;
};

struct ChannelsLastImpl : torch::nn::Module {
  ChannelsLastImpl()
      : first(register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 2).padding(1)))),
        last(register_module("last", torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(4, 3, 2)))) {
    for (at::Tensor& parameter : parameters()) {
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor image = x.view({-1, 2, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast);
    return last->forward(torch::tanh(first->forward(image)));
  }
  torch::nn::Conv2d first;
  torch::nn::ConvTranspose2d last;
};

/// Uses through which no gradient flows.
struct DetachedImpl : torch::nn::Module {
  DetachedImpl() : a(register_module("a", torch::nn::Linear(8, 8))), b(register_module("b", torch::nn::Linear(8, 8))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor target = torch::tanh(torch::nn::functional::linear(x, b->weight.detach(), b->bias.data()));
    at::Tensor scale;
    {
      const at::NoGradGuard no_grad;
      scale = a->weight.abs().max() + b->weight.variable_data().sum().item<double>();
    }
    return torch::tanh(b->forward(torch::tanh(a->forward(x)))) * scale - target;
  }
  torch::nn::Linear a, b;
};

/// An operator that saves parameters itself.
struct Product : torch::autograd::Function<Product> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight) {
    context->save_for_backward({x, weight});
    return x.matmul(weight.t());
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    const Tensors saved = context->get_saved_variables();
    return {gradients[0].matmul(saved[1]), gradients[0].t().matmul(saved[0])};
  }
};
struct OwnFunctionImpl : torch::nn::Module {
  OwnFunctionImpl() {
    for (int i = 0; i < 3; ++i) weights.push_back(register_parameter(tw::concat("w", i), torch::randn({8, 8}) / 2));
  }
  at::Tensor forward(at::Tensor x) {
    for (const at::Tensor& weight : weights) x = torch::tanh(Product::apply(x, weight));
    return x;
  }
  Tensors weights;
};

struct RecomputedImpl : torch::nn::Module {
  RecomputedImpl() {
    for (int i = 0; i < 4; ++i) layers->push_back(torch::nn::Linear(8, 8));
    register_module("layers", layers);
  }
  at::Tensor forward(at::Tensor x) {
    const auto two = [this](const at::Tensor& y, size_t first) {
      const at::Tensor z = torch::tanh(layers->at<torch::nn::LinearImpl>(first).forward(y));
      return torch::tanh(layers->at<torch::nn::LinearImpl>(first + 1).forward(torch::dropout(z, 0.2, true)));
    };
    for (const size_t first : {0, 2}) x = tw::recomputed([two, first](const at::Tensor& y) { return two(y, first); }, x);
    return x + layers->at<torch::nn::LinearImpl>(0).bias;
  }
  torch::nn::ModuleList layers;
};

struct ComplexImpl : torch::nn::Module {
  ComplexImpl()
      : filter(register_parameter("filter", torch::randn({5}, torch::kComplexDouble))), last(register_module("last", torch::nn::Linear(8, 3))) {
    last->to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return last->forward(torch::fft_irfft(torch::fft_rfft(x) * filter, 8)); }
  at::Tensor filter;
  torch::nn::Linear last;
};

// Trains on a force: the derivative of the model's output by its input.
at::Tensor of_derivative(torch::nn::Module& module, const at::Tensor& x, int64_t /*step*/) {
  const at::AutoGradMode with_gradients(true);  // in evaluations, too
  const at::Tensor input = x.clone().requires_grad_();
  const at::Tensor energy = dynamic_cast<torch::nn::SequentialImpl&>(module).forward(input);
  const at::Tensor force = torch::autograd::grad({energy.sum()}, {input}, {}, true, true)[0];
  return force.square().mean() + energy.mean();
}

std::vector<Kind> kinds() {
  const auto splits_matter = [](Kind kind) {
    kind.splits_matter = true;
    return kind;
  };
  std::vector<Kind> all{
      splits_matter(kind_of<GruImpl>("gru with dropout")),
      kind_of<LstmWithProjectionImpl>("lstm with projection"),
      kind_of<GptImpl>("gpt, tied"),
      kind_of<BagImpl>("embedding bags"),
      kind_of<InPlaceImpl>("in place"),
      kind_of<ComputedImpl>("computed weights"),
      kind_of<ViewsImpl>("views"),
      kind_of<SmallImpl>("few elements"),
      kind_of<TurnedImpl>("turned parameters"),
      kind_of<ChannelsLastImpl>("channels last"),
      kind_of<DetachedImpl>("detached uses"),
      kind_of<OwnFunctionImpl>("functions of one's own"),
      splits_matter(kind_of<RecomputedImpl>("recomputed")),
      splits_matter(kind_of("batch norm",
                            [] {
                              torch::nn::Sequential net(torch::nn::Linear(8, 6), torch::nn::BatchNorm1d(6), torch::nn::Tanh(),
                                                        torch::nn::Linear(6, 6), torch::nn::BatchNorm1d(6), torch::nn::Linear(6, 3));
                              net->named_parameters()["4.weight"].requires_grad_(false);
                              return net;
                            })),
      kind_of("batch norm in evaluation mode",
              [] {
                torch::nn::Sequential net(torch::nn::Linear(8, 6), torch::nn::BatchNorm1d(6), torch::nn::Tanh(), torch::nn::Linear(6, 3));
                net->eval();
                return net;
              }),
  };
  Kind force = plain();
  force.name = "derivatives";
  force.loss = &of_derivative;
  all.push_back(force);
  all.push_back({"complex",
                 [] {
                   torch::manual_seed(5);
                   return std::make_shared<ComplexImpl>();
                 },
                 &square_of<ComplexImpl>});
  return all;
}

TEST(ShardedModels, OfManyKinds) {
  for (const Kind& kind : kinds()) {
    for (const tw::FullyShardedOptions& options : some_modes(tw::Reduction::mean)) expect_training_equal(kind, "SGD", options);
  }
}

}  // namespace sharded_models_test
