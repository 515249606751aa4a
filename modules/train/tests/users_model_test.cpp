// SPDX-License-Identifier: Apache-2.0
// A user's own model in parts: the trainer's numbers equal those of one process.
#include "models_in_parts.hpp"

#include <tw/comm/collectives.hpp>

namespace users_model_test {

using namespace tw::testing::parts;
using tw::testing::three_epochs;
using tw::testing::world;

/// A linear regression with distributed inputs: rank r of P multiplies inputs n r / P to n (r + 1) / P. Its gradient is written by hand, as in a
/// user's model without autograd.
class SharedInputs : public tw::TrainableModel {
 public:
  SharedInputs(const tw::Communicator& comm, int64_t inputs)
      : comm_(comm), begin_(inputs * comm.rank() / comm.size()), inputs_(inputs), observed_(inputs * (comm.rank() + 1) / comm.size() - begin_) {
    weight_ = torch::linspace(0.1, 0.4, inputs, torch::kDouble).narrow(0, begin_, observed_).clone().set_requires_grad(true);
  }

  std::vector<std::string> axes() const override { return {"inputs"}; }
  tw::ModelTensors tensors() const override { return {.parameters = {{"weight", weight_}}}; }
  std::vector<tw::NamedShard> shards() const override {
    return {{"weight", {}, {inputs_}, weight_.detach(), {begin_}, tw::ShardKind::parameter, tw::OnReshard::shard}};
  }
  std::vector<tw::OptimizedTensor> optimized_tensors() const override { return {{weight_, shards()}}; }
  at::Tensor forward(const at::Tensor& inputs) override {
    const torch::NoGradGuard no_gradients;
    const at::Tensor sum = part_of(inputs).matmul(weight_);
    tw::allreduce(comm_, sum, tw::ReduceOp::sum);
    return sum.unsqueeze(1);
  }
  void pass(const tw::TrainingPass& pass) override {
    const at::Tensor outputs = forward(pass.inputs);
    at::Tensor loss = pass.loss(outputs, pass.targets);
    const at::Tensor gradient = part_of(pass.inputs).t().matmul((outputs - pass.targets).squeeze(1)) * (2 * pass.weight / pass.inputs.size(0));
    weight_.mutable_grad() = weight_.grad().defined() ? weight_.grad() + gradient : gradient;
    pass.on_loss(outputs, loss);
  }
  bool makes_one_backward_pass() const override { return false; }

 private:
  at::Tensor part_of(const at::Tensor& inputs) const { return inputs.narrow(1, begin_, observed_); }

  const tw::Communicator& comm_;
  int64_t begin_;
  int64_t inputs_;
  int64_t observed_;
  at::Tensor weight_;
};

TEST(UsersModel, IsTrainedAsOneOfOurs) {
  const Mesh one(world().split(world().rank(), 0), {{"data"}, {"inputs", 1}});
  const auto expected = train(one, model_of(std::make_shared<SharedInputs>(one["inputs"], 4)), three_epochs("own_alone")).summary;
  EXPECT_EQ(expected.parameters, 4);
  EXPECT_LT(expected.test[0].second, 0.2) << "it learns";
  for (const int ranks : {1, 2, 3, 4}) {
    if (world().size() % ranks != 0) continue;
    const Mesh mesh(world(), {{"data"}, {"inputs", ranks}});
    Options options = three_epochs("own");
    options.checkpoint.every_epochs = 1;
    options.resume = tw::train::Resume::fresh;
    const auto model = std::make_shared<SharedInputs>(mesh["inputs"], 4);
    expect_equal(train(mesh, model_of(model), options).summary, expected, tw::concat(ranks, " ranks"));
    if (world().rank() != 0) continue;
    EXPECT_EQ(tw::SafetensorsFile(options.folder() / "best.safetensors").tensor("weight").numel(), 4);
  }
}

}  // namespace users_model_test
