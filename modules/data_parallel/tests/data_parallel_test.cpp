// SPDX-License-Identifier: Apache-2.0
#include "message_of.hpp"
#include "mpi_test.hpp"
#include "one_parameter.hpp"

#include <torch/torch.h>

#include <thread>
#include <tw/data_parallel.hpp>

namespace data_parallel_test {

using namespace tw::testing::one_parameter;
using tw::testing::message_of;
using tw::testing::world;

// A pipeline's micro-batches accumulate like this.
void expect_no_copies(tw::Reduction reduction, bool by_a_last_pass) {
  const at::Tensor p = parameter();
  tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = reduction});
  for (int step = 0; step < 2; ++step) {
    p.mutable_grad() = at::Tensor();
    const void* place = parallel.reducer().gradient(0).const_data_ptr();
    {
      const auto local = parallel.no_sync();
      loss_of(p).backward();
      EXPECT_EQ(p.grad().const_data_ptr(), place);
      loss_of(p, 2).backward();
      EXPECT_EQ(p.grad().const_data_ptr(), place);
      EXPECT_EQ(p.grad()[0].item<double>(), 3.0 * (world().rank() + 1)) << "this rank's alone";
    }
    if (by_a_last_pass) {
      loss_of(p, 4).backward();
    } else {
      parallel.join_backward();
    }
    EXPECT_EQ(p.grad().const_data_ptr(), place);
    EXPECT_NEAR(p.grad()[0].item<double>(), (by_a_last_pass ? 7 : 3) * factor(reduction), tolerance);
  }
}

TEST(DataParallel, GradientsOfLocalPassesGatherInTheBuckets) {
  for (const auto reduction : {tw::Reduction::sum, tw::Reduction::mean}) {
    expect_no_copies(reduction, false);
    expect_no_copies(reduction, true);
  }
}

TEST(DataParallel, ReducesBeforeBackwardReturns) {
  for (const auto reduction : reductions) {
    const auto p = parameter();
    tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = reduction});
    parallel.set_samples(5);
    loss_of(p).backward();
    expect_gradient(p, factor(reduction));
  }
}

TEST(DataParallel, GradientsKeepTheirMemoryAndComeBackAfterZeroGrad) {
  const auto p = parameter();
  torch::optim::SGD sgd({p}, 0.0);
  const tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = tw::Reduction::mean});
  loss_of(p).backward();
  const void* place = p.grad().data_ptr();
  for (const bool to_none : {true, false, true}) {
    sgd.zero_grad(to_none);
    EXPECT_EQ(p.grad().defined(), !to_none);
    loss_of(p, 2).backward();
    EXPECT_EQ(p.grad().data_ptr(), place);
    expect_gradient(p, 2 * factor(tw::Reduction::mean));
    sgd.step();
  }
}

TEST(DataParallel, AccumulatesOverPassesLikeOneProcess) {
  for (const auto reduction : reductions) {
    const auto p = parameter();
    tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = reduction});
    parallel.set_samples(2);
    loss_of(p).backward();
    loss_of(p, 3).backward();
    loss_of(p, -1).backward();
    expect_gradient(p, 3 * factor(reduction));
  }
}

// A gradient written by hand (weight decay) is this rank's share in every step, whether the last one was dropped, replaced or overwritten.
TEST(DataParallel, AGradientWrittenBeforeBackwardIsThisRanksShare) {
  for (const auto reduction : reductions) {
    for (const bool to_none : {true, false}) {
      const auto p = parameter();
      torch::optim::SGD sgd({p}, 0.0);
      tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = reduction});
      parallel.set_samples(2);
      for (int step = 0; step < 3; ++step) {
        sgd.zero_grad(to_none);
        if (p.grad().defined()) {
          p.grad().fill_(world().rank() + 1);
        } else {
          p.mutable_grad() = torch::full({3}, world().rank() + 1.0F);
        }
        loss_of(p).backward();
        expect_gradient(p, 2 * factor(reduction));
      }
    }
  }
}

TEST(DataParallel, RefusesToSumGradientsFromBeforeItWasMade) {
  const auto p = parameter();
  {
    const tw::DataParallel first(world(), {{"p", p}}, {.reduction = tw::Reduction::sum});
    loss_of(p).backward();
  }
  const tw::DataParallel second(world(), {{"p", p}}, {.reduction = tw::Reduction::sum});
  const std::string message = tw::testing::message_of([&] { loss_of(p).backward(); });
  if (world().size() == 1) return expect_gradient(p, 2);
  EXPECT_NE(message.find("'p' still has the gradient that it had when DataParallel was made"), std::string::npos) << message;
  p.mutable_grad() = at::Tensor();
  loss_of(p).backward();
  expect_gradient(p, triangle());
  const auto q = parameter();
  q.mutable_grad() = torch::full({3}, 5.0F);
  const tw::DataParallel mean(world(), {{"q", q}}, {.reduction = tw::Reduction::mean});
  loss_of(q).backward();
  expect_gradient(q, 5 + factor(tw::Reduction::mean));  // the mean of equal gradients is unchanged
}

/// Identity that throws in one rank's backward pass.
struct Failing : torch::autograd::Function<Failing> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, bool fails) {
    context->saved_data["fails"] = fails;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, const torch::autograd::variable_list& gradients) {
    if (context->saved_data["fails"].toBool()) throw std::runtime_error("out of memory");
    return {gradients[0], at::Tensor()};
  }
};

// The exception lies between the gradients of `last` and `first`. The rank that caught it continues; the others learn that its share is missing.
TEST(DataParallel, GoesOnAfterABackwardPassThatThrew) {
  for (const bool joins : {false, true}) {
    for (const bool to_none : {true, false}) {
      for (const auto overlap : {false, true}) {
        const auto first = parameter();
        const auto last = parameter();
        torch::optim::SGD sgd({first, last}, 0.0);
        tw::DataParallel parallel(world(), {{"first", first}, {"last", last}}, {.reduction = tw::Reduction::sum, .overlap = overlap});
        const auto pass = [&](bool fails) {
          const at::Tensor throws = Failing::apply(first, fails);
          const at::Tensor comes_first = last * 2;  // in the backward pass, which begins with the last operator called
          loss_of(throws + comes_first).backward();
        };
        pass(false);
        for (int failing = 0; failing < world().size(); ++failing) {
          sgd.zero_grad(to_none);
          const bool fails = world().rank() == failing;
          const std::string message = tw::testing::message_of([&] { pass(fails); });
          if (fails) {
            EXPECT_NE(message.find("out of memory"), std::string::npos) << message;
          }
          if (!fails) {
            EXPECT_NE(message.find("an exception ended this step on 1 of"), std::string::npos) << message;
          }
          if (fails && joins) {
            EXPECT_THROW(parallel.join_backward(), tw::Error);
          }
          sgd.zero_grad(to_none);
          pass(false);
          expect_gradient(first, triangle());
          expect_gradient(last, 2 * triangle());
        }
      }
    }
  }
}

// Gradients of the second model arrive first, but ranks wait for the first.
TEST(DataParallel, GoesOnAfterABackwardPassOfTwoModelsThatThrew) {
  const auto first = parameter();
  const auto last = parameter();
  const auto other = parameter();
  torch::optim::SGD sgd({first, last, other}, 0.0);
  const tw::DataParallel one(world(), {{"first", first}, {"last", last}}, {.reduction = tw::Reduction::sum});
  const tw::DataParallel two(world(), {{"other", other}}, {.reduction = tw::Reduction::sum});
  const auto pass = [&](bool fails) {
    const at::Tensor throws = Failing::apply(first, fails);
    const at::Tensor comes_second = last * 2;
    const at::Tensor comes_first = other * 3;
    loss_of(throws + comes_second + comes_first).backward();
  };
  for (int failing = 0; failing < world().size(); ++failing) {
    sgd.zero_grad();
    EXPECT_NE(tw::testing::message_of([&] { pass(world().rank() == failing); }), "");
    sgd.zero_grad();
    pass(false);
    expect_gradient(first, triangle());
    expect_gradient(last, 2 * triangle());
    expect_gradient(other, 3 * triangle());
  }
}

TEST(DataParallel, LeavesWhatNobodyUsesAlone) {
  for (const auto reduction : reductions) {
    const auto used = parameter();
    const auto sometimes = parameter();
    const auto never = parameter();
    tw::DataParallel parallel(world(), {{"used", used}, {"sometimes", sometimes}, {"never", never}}, {.reduction = reduction});
    parallel.set_samples(1);
    loss_of(used).backward();
    expect_gradient(used, factor(reduction));
    EXPECT_FALSE(never.grad().defined());
    EXPECT_FALSE(sometimes.grad().defined());
    (loss_of(used) + loss_of(sometimes)).backward();
    loss_of(used).backward();  // `sometimes` keeps its gradient
    expect_gradient(used, 3 * factor(reduction));
    expect_gradient(sometimes, factor(reduction));
    EXPECT_FALSE(never.grad().defined());
  }
}

TEST(DataParallel, CountsAMissingGradientAsZero) {
  for (const auto reduction : reductions) {
    const auto everywhere = parameter();
    const auto on_rank_0 = parameter();
    tw::DataParallel parallel(world(), {{"everywhere", everywhere}, {"on_rank_0", on_rank_0}}, {.reduction = reduction});
    parallel.set_samples(1);
    for (int pass = 1; pass <= 2; ++pass) {
      at::Tensor loss = loss_of(everywhere);
      if (world().rank() == 0) loss = loss + loss_of(on_rank_0);
      loss.backward();
      expect_gradient(everywhere, pass * factor(reduction));
      expect_gradient(on_rank_0, reduction == tw::Reduction::sum ? pass : pass / static_cast<double>(world().size()));
    }
  }
}

/// Two layers that share one weight under two names, and a frozen parameter.
struct TiedNet : torch::nn::Module {
  TiedNet() {
    weight = register_parameter("first", torch::ones({3, 3}));
    register_parameter("second", weight);
    frozen = register_parameter("frozen", torch::full({3}, 7.0), /*requires_grad=*/false);
  }
  at::Tensor forward(const at::Tensor& x) { return x.matmul(weight).matmul(weight) + frozen; }
  at::Tensor weight;
  at::Tensor frozen;
};

TEST(DataParallel, TakesSharedAndFrozenParameters) {
  TiedNet net;
  const tw::DataParallel parallel(world(), net, {.reduction = tw::Reduction::sum});
  EXPECT_EQ(parallel.plan().placements.size(), 1U);
  net.forward(torch::ones({1, 3}) * (world().rank() + 1)).sum().backward();
  // d/dW of x W W 1: x' (W 1)' + (x W)' 1' = 3 (r+1) + 3 (r+1) in every element.
  expect_gradient(net.weight, 6 * triangle());
  EXPECT_FALSE(net.frozen.grad().defined());
}

TEST(DataParallel, ReducesInSeveralDtypesAndBuckets) {
  std::vector<tw::NamedTensor> parameters;
  for (int i = 0; i < 12; ++i) {
    const auto dtype = i % 3 == 0 ? torch::kDouble : torch::kFloat;
    parameters.push_back({tw::concat("p", i), torch::ones({50, 7}, torch::dtype(dtype).requires_grad(true))});
  }
  for (const bool overlap : {false, true}) {
    const tw::DataParallel parallel(
        world(), parameters, {.reduction = tw::Reduction::sum, .buckets = {.first_bucket_bytes = 2000, .bucket_bytes = 4000}, .overlap = overlap});
    EXPECT_GT(parallel.plan().buckets.size(), 3U);
    at::Tensor loss = torch::zeros({});
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].tensor.mutable_grad() = at::Tensor();
      loss = loss + loss_of(parameters[i].tensor, static_cast<double>(i));
    }
    loss.backward();
    for (size_t i = 0; i < parameters.size(); ++i) expect_gradient(parameters[i].tensor, static_cast<double>(i) * triangle());
  }
}

TEST(DataParallel, AutogradWithoutAccumulationIsUntouched) {
  const auto p = parameter();
  const tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = tw::Reduction::sum});
  const auto gradients = torch::autograd::grad({loss_of(p)}, {p});
  EXPECT_NEAR(gradients[0][0].item<double>(), world().rank() + 1, tolerance);
  EXPECT_FALSE(p.grad().defined());
}

TEST(DataParallel, GradientsAndTheModelOutliveIt) {
  const auto p = parameter();
  {
    const tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = tw::Reduction::sum});
    loss_of(p).backward();
  }
  expect_gradient(p, triangle());
  p.mutable_grad() = at::Tensor();
  loss_of(p).backward();  // local again
  expect_gradient(p, world().rank() + 1);
}

/// Truncated backpropagation through time: a buffer holds the result of the previous pass.
TEST(DataParallel, BuffersMayHoldWhatAPassHasMade) {
  torch::nn::Linear cell(3, 3);
  const at::Tensor state = cell->register_buffer("state", torch::zeros({2, 3}));
  {
    tw::DataParallel replicas(world(), *cell, {.reduction = tw::Reduction::mean});
    for (int step = 0; step < 3; ++step) {
      state.detach_();
      state.copy_(torch::tanh(cell(state + 1)));
      state.sum().backward();
    }
    EXPECT_TRUE(cell->weight.grad().defined());
  }
  state.detach_();
}

// Each rank calls the models in its own order: as a sum, where gradients arrive in the order of the last call, and as a chain.
TEST(DataParallel, SeveralModelsTakePartInOneBackwardPass) {
  for (const auto& overlap : {std::optional<bool>(false), std::optional<bool>(true)}) {
    const auto p = parameter();
    const auto q = parameter(5);
    const tw::DataParallel first(world(), {{"p", p}}, {.reduction = tw::Reduction::sum, .overlap = overlap});
    const tw::DataParallel second(world(), {{"q", q}}, {.reduction = tw::Reduction::sum, .overlap = overlap});
    for (int step = 1; step <= 3; ++step) {
      const bool swaps = world().rank() % 2 == 1;
      const at::Tensor early = loss_of(swaps ? q : p);
      (loss_of(swaps ? p : q) + early).backward();
      expect_gradient(p, step * triangle());
      expect_gradient(q, step * triangle());
    }
  }
}

// DataParallel's hooks communicate on the thread that calls backward().
TEST(DataParallel, BackwardOnAnotherThreadIsForMpiToAllow) {
  const auto p = parameter();
  const tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = tw::Reduction::sum});
  std::string message = "nothing thrown";
  std::thread([&] { message = tw::testing::message_of<tw::ContractError>([&] { loss_of(p).backward(); }); }).join();
  if (tw::Environment::adopt().thread_level() == tw::ThreadLevel::multiple) {
    EXPECT_EQ(message, "nothing thrown");
    expect_gradient(p, triangle());
  } else {
    EXPECT_NE(message.find("a thread that did not initialise MPI communicates at MPI_THREAD_FUNNELED"), std::string::npos) << message;
  }
}

TEST(DataParallel, CountsTheTimeOfCommunication) {
  const auto p = parameter();
  const tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = tw::Reduction::sum});
  loss_of(p).backward();
  EXPECT_GT(parallel.exposed_time().count(), 0);
}

// Each rank's pass would rescale the rows that it uses, different ones on each rank.
TEST(DataParallel, NamesAnEmbeddingThatScalesItsOwnRows) {
  const auto options = torch::nn::EmbeddingOptions(6, 4).max_norm(0.1);
  torch::nn::Sequential net(torch::nn::Embedding(options), torch::nn::Linear(4, 1));
  torch::nn::Sequential bags(torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(6, 4).max_norm(0.1)));
  const auto message = [&](const torch::nn::Module& module) {
    return message_of([&] { const tw::DataParallel parallel(world(), module, {.reduction = tw::Reduction::mean}); });
  };
  const auto sharded = [&](const torch::nn::Module& module) {
    return message_of([&] { const tw::FullySharded parallel(world(), module, {.reduction = tw::Reduction::mean}); });
  };
  const std::string wanted = "0.weight is the weight of an embedding with max_norm";
  for (const std::string& found : {message(*net), message(*bags), sharded(*net)}) {
    EXPECT_EQ(found.find(wanted) != std::string::npos, world().size() > 1) << found;
  }
  const std::string itself = message(*torch::nn::Embedding(options));
  EXPECT_EQ(itself.find("weight is the weight of an embedding with max_norm") != std::string::npos, world().size() > 1) << itself;
  net[0]->as<torch::nn::Embedding>()->weight.requires_grad_(false);  // frozen: all ranks' passes have the same effect
  EXPECT_EQ(message(*net).find(wanted), std::string::npos);
}

}  // namespace data_parallel_test
