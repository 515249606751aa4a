// SPDX-License-Identifier: Apache-2.0
// Layers that do not all do the same: run as one operation, they must compute the same as one by one.
#include "dense.hpp"
#include "mpi_test.hpp"

#include <random>
#include <tw/layer_parallel/layer_parallel.hpp>

namespace tw::layer_parallel {
namespace batching_test {

using testing::world;

/// Settings that the user may change at any time, and that no tensor of a module shows.
struct Settings {
  double scale = 1;
  bool sine = false;
  torch::Tensor mask = torch::ones({4}, torch::kDouble);
  std::vector<double> shift = {0, 0, 0, 0};
};

/// A layer assembled from typical pieces.
struct PatchworkImpl : torch::nn::Module {
  enum Piece { linear, tanh, scale, function, mask, shift, constant, item, truth, equal, memory, written, attention, size, pieces };
  PatchworkImpl(std::vector<Piece> made_of, std::shared_ptr<Settings> own)
      : made_of_(std::move(made_of)), settings(std::move(own)), linear_(register_module("linear", torch::nn::Linear(4, 4))) {}

  torch::Tensor forward(torch::Tensor u) {
    const auto turned = [&](bool large) { return large ? u.mul(-0.5) : u; };
    for (const Piece piece : made_of_) {
      switch (piece) {
        case linear: u = linear_(u); break;
        case tanh: u = torch::tanh(u); break;
        case scale: u = u * settings->scale; break;
        case function: u = settings->sine ? torch::sin(u) : torch::tanh(u); break;
        case mask: u = u * settings->mask; break;
        case shift: u = u + torch::tensor(settings->shift, torch::kDouble); break;
        case constant: u = u * settings->mask.sum().item<double>(); break;
        case item: u = turned(u.abs().max().item<double>() > 20); break;
        case truth: u = turned((u.abs() > 20).any().is_nonzero()); break;
        case equal: u = turned(!torch::equal(u.clamp(-20, 20), u)); break;
        case memory: u = turned(std::abs(u.contiguous().data_ptr<double>()[0]) > 10); break;
        case written: u = torch::zeros(u.sizes(), torch::kDouble).copy_(u); break;
        case attention: {
          const torch::Tensor rows = u.view({1, 1, u.size(0), 4});
          u = at::scaled_dot_product_attention(rows, rows, rows, {}, 0, /*is_causal=*/true).view(u.sizes());
          break;
        }
        case size: u = u.size(0) > 2 ? u + 0.1 : u; break;
        case pieces: break;
      }
    }
    return u;
  }
  std::vector<Piece> made_of_;
  std::shared_ptr<Settings> settings;
  torch::nn::Linear linear_;
};
TORCH_MODULE(Patchwork);
using enum PatchworkImpl::Piece;

/// Two equal networks, one batched and one run layer by layer, and their settings.
class Pair {
 public:
  /// @param special a layer with its own settings
  explicit Pair(const std::vector<PatchworkImpl::Piece>& made_of, Integrator integrator = Integrator::euler, int64_t special = -1) {
    const auto blocks = [&](Batching batching) {
      const auto make = [this, made_of, special](int64_t index) { return Patchwork(made_of, index == special ? own : settings); };
      return std::vector<Block>{block(make, 9, {.integrator = integrator, .batching = batching})};
    };
    together = std::make_unique<LayerParallel>(world(), blocks(Batching::automatic), LayerParallelOptions{.min_coarse = 1});
    one_by_one = std::make_unique<LayerParallel>(world(), blocks(Batching::never), LayerParallelOptions{.min_coarse = 1});
    together->to(torch::kDouble);
    one_by_one->to(torch::kDouble);
  }

  /// Runs a pass of both networks and compares them.
  void expect_equal(const torch::Tensor& x, const std::string& what) {
    std::vector<std::vector<torch::Tensor>> outcomes;
    for (LayerParallel* net : {together.get(), one_by_one.get()}) {
      net->zero_grad();
      torch::Tensor input = x.clone().set_requires_grad(true);
      const torch::Tensor y = net->forward(input);
      y.sin().sum().backward();
      std::vector<torch::Tensor>& outcome = outcomes.emplace_back(std::vector<torch::Tensor>{y.detach()});
      if (world().rank() == 0) outcome.push_back(input.grad());
      for (const torch::Tensor& p : net->parameters()) outcome.push_back(p.grad());
    }
    // float64: sums of width 4 in a different order, over some forty layers and sweeps, some of which double their input.
    for (size_t i = 0; i < outcomes[0].size(); ++i) {
      const double scale = 1 + at::linalg_vector_norm(outcomes[1][i]).item<double>();  // norm() of a gradient is refused
      EXPECT_LE((outcomes[0][i] - outcomes[1][i]).norm().item<double>(), 1e-11 * scale) << what << ", " << i;
    }
  }
  std::string unbatchable() const { return together->unbatchable("0"); }
  bool has_layers() const { return !together->parameters().empty() && together->parameters()[0].size(0) > 0; }

  std::shared_ptr<Settings> settings = std::make_shared<Settings>();
  std::shared_ptr<Settings> own = std::make_shared<Settings>();
  std::unique_ptr<LayerParallel> together;
  std::unique_ptr<LayerParallel> one_by_one;
};

torch::Tensor input(double size) {
  torch::manual_seed(1);
  return size * torch::randn({3, 4}, torch::kDouble);
}

/// Also layers with an operation that vmap has no rule for.
TEST(Batching, BranchesOnValues) {
  for (const auto& [piece, name] : {std::pair(item, "aten::item"),
                                    {truth, "aten::is_nonzero"},
                                    {equal, "aten::equal"},
                                    {memory, "a tensor's memory"},
                                    {written, "aten::copy_"},
                                    {attention, "fallback"}}) {
    Pair nets({linear, piece, tanh});
    nets.expect_equal(input(1), name);
    nets.expect_equal(input(100), name);
    if (nets.has_layers()) {
      EXPECT_NE(nets.unbatchable().find(name), std::string::npos) << nets.unbatchable();
    }
  }
}

/// The layers are traced again, and still run together.
TEST(Batching, MembersThatChangeBetweenPasses) {
  Pair nets({scale, linear, function, mask, shift, constant});
  Settings& settings = *nets.settings;
  const auto expect_together = [&](const std::string& what) {
    nets.expect_equal(input(1), what);
    EXPECT_EQ(nets.unbatchable(), "") << what;
  };
  expect_together("before");
  settings.scale = 1.5;
  expect_together("a number");
  settings.sine = true;
  expect_together("a flag");
  settings.mask = torch::tensor({1.0, 0.5, 2.0, 1.0}, torch::kDouble);
  expect_together("another tensor");
  settings.mask.mul_(2);
  expect_together("a tensor in place");
  settings.shift[2] = 0.25;
  expect_together("numbers of a list");
}

TEST(Batching, ALayerThatIsNotAsTheOthers) {
  Pair nets({scale, linear, tanh}, Integrator::euler, 2);
  nets.expect_equal(input(1), "alike");
  EXPECT_EQ(nets.unbatchable(), "");
  nets.own->scale = 3;
  nets.expect_equal(input(1), "another number in layer 2");
  if (world().rank() == 0) {
    EXPECT_NE(nets.unbatchable().find("does not compute what layer 0 computes: different arguments of aten::mul"), std::string::npos)
        << nets.unbatchable();
  }
}

TEST(Batching, LayersThatDrawNumbers) {
  struct Dropping : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& u) { return torch::dropout(u * weight, 0.5, true); }
    torch::Tensor weight = register_parameter("weight", torch::ones({4}, torch::kDouble));
  };
  LayerParallel net(world(), {block([] { return std::make_shared<Dropping>(); }, 9, {.random = true})}, {.min_coarse = 1});
  net.forward(input(1));
  if (net.parameters()[0].size(0) > 0) {
    EXPECT_EQ(net.unbatchable("0"), "the layers draw random numbers");
  }
}

/// Random layers, changed at random between passes.
TEST(Batching, RandomLayersDoTogetherWhatTheyDoOneByOne) {
  int passes_together = 0;
  for (unsigned seed = 0; seed < 25; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](unsigned n) { return static_cast<int>(random() % n); };
    std::vector<PatchworkImpl::Piece> made_of{linear};
    while (made_of.size() < 5) made_of.push_back(static_cast<PatchworkImpl::Piece>(draw(pieces)));
    if (draw(2) == 0) std::erase_if(made_of, [](auto piece) { return piece >= item && piece <= written; });
    Pair nets(made_of, std::array{Integrator::euler, Integrator::rk2, Integrator::rk4}[static_cast<size_t>(draw(3))], draw(12));
    std::string what = "seed " + std::to_string(seed);
    for (int pass = 0; pass < 4; ++pass) {
      Settings& settings = draw(3) == 0 ? *nets.own : *nets.settings;
      switch (draw(8)) {
        case 0: settings.scale = 0.5 + 0.1 * draw(10); break;
        case 1: settings.sine = !settings.sine; break;
        case 2: settings.mask = torch::full({4}, 0.5 + 0.1 * draw(10), torch::kDouble); break;
        case 3: settings.mask[draw(4)] = 0.1 * draw(10); break;
        case 4: settings.shift[static_cast<size_t>(draw(4))] = 0.1 * draw(10); break;
        default: break;
      }
      what += ", " + std::to_string(pass);
      nets.expect_equal(input(draw(2) == 0 ? 1 : 50).narrow(0, 0, 2 + draw(2)), what);
      passes_together += nets.unbatchable().empty() ? 1 : 0;
    }
  }
  EXPECT_GE(passes_together, 20) << "or there is little to compare";
}

}  // namespace batching_test
}  // namespace tw::layer_parallel
