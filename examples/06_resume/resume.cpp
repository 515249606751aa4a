// SPDX-License-Identifier: Apache-2.0
// A run that is interrupted and resumed ends with exactly the same bits as an uninterrupted one. Here a hook ends the run; SIGTERM or SIGUSR1 from a
// batch system, or a kill, would work too. It could also resume on a different number of ranks.
//
// Build:   cmake --build build/release --target 06_resume
// Run:     mpirun -n 2 build/release/bin/06_resume
// Expect:  ended after 38 steps: enough for today; resumed and finished after 96: the same bits as in one go: yes
#include <torch/torch.h>

#include <iostream>
#include <tw/train.hpp>

namespace {

/// Requests a stop in step `step`. The other ranks learn of it during the next step, and the run ends after that.
class Stop : public tw::train::Hook {
 public:
  explicit Stop(int64_t step) : step_(step) {}
  void on_update(tw::train::State& state) override {
    if (state.step == step_) state.stop("enough for today");
  }

 private:
  int64_t step_;
};

struct Outcome {
  tw::train::Summary summary;
  std::vector<at::Tensor> parameters;
};

Outcome train(const tw::Communicator& comm, const std::string& name, tw::train::Resume resume, int64_t stop_at) {
  torch::manual_seed(1);
  const at::Tensor inputs = torch::rand({512, 4}, torch::kDouble);
  const tw::TensorDataset data(inputs, inputs.square().sum(1, /*keepdim=*/true));
  torch::nn::Sequential net(torch::nn::Linear(4, 32), torch::nn::Dropout(0.1), torch::nn::Tanh(), torch::nn::Linear(32, 1));
  net->to(torch::kDouble);
  const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
  torch::optim::Adam adam(model.tensors(), 1e-2);

  tw::train::Options options{.name = name, .epochs = 3, .global_batch = 16};
  options.checkpoint = {.every_steps = 10};  // in addition to one after each epoch, and one at the end
  options.resume = resume;
  tw::train::Trainer trainer(comm, model, adam, tw::train::regression(), data, data, options);
  Stop stop(stop_at);
  trainer.add(stop);
  Outcome outcome{trainer.run(), {}};
  for (const at::Tensor& parameter : model.tensors()) outcome.parameters.push_back(parameter.detach());
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  constexpr int64_t never = -1;
  const Outcome whole = train(mpi.world(), "06_resume_whole", tw::train::Resume::fresh, never);
  const Outcome first = train(mpi.world(), "06_resume", tw::train::Resume::fresh, 37);
  const Outcome second = train(mpi.world(), "06_resume", tw::train::Resume::resume, never);

  bool same = true;
  for (size_t i = 0; i < whole.parameters.size(); ++i) same = same && whole.parameters[i].equal(second.parameters[i]);
  if (mpi.world().rank() == 0) {
    std::cout << "ended after " << first.summary.steps << " steps: " << first.summary.stopped_because << "; resumed and finished after "
              << second.summary.steps << ": the same bits as in one go: " << (same ? "yes" : "no") << std::endl;
  }
}
