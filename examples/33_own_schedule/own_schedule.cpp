// SPDX-License-Identifier: Apache-2.0
// Your own schedule, as text: checked, simulated and run. This one is 1F1B with one more forward pass in advance. It hides the time of messages, and
// holds the activations of one more micro-batch.
//
// Build:   cmake --build build/release --target 33_own_schedule
// Run:     mpirun -n 2 build/release/bin/33_own_schedule
// Expect:  the problems of two invalid schedules; a Gantt chart, in which this schedule is shorter than 1F1B if messages take time;
//          the same loss for both
#include <torch/torch.h>

#include <iostream>
#include <tw/mpi.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/planning/schedule_check.hpp>
#include <tw/planning/simulation.hpp>

namespace {

using namespace tw::pipeline;

constexpr const char* incomplete = R"(
  0F0 0F1 0B0 0B1    # stage, F or B, micro-batch; a line a device
  1F0 1B0 1F1
)";
constexpr const char* stuck = R"(
  0F0 0B0 0F1 0B1
  1F0 1F1 1B0 1B1    # waits for 0F1, which comes after 0B0, which waits for 1B0
)";
constexpr const char* early = R"(
  0F0 0F1 0F2 0B0 0F3 0B1 0F4 0B2 0F5 0B3 0B4 0B5
  1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3 1F4 1B4 1F5 1B5
)";
constexpr int64_t width = 16;

/// The loss after 100 steps; the same for every schedule.
double trained(const tw::Communicator& comm, const Schedule& schedule) {
  torch::manual_seed(1);
  const std::vector<BlockFactory> blocks{block([] { return torch::nn::Linear(width, width); }), block([] { return torch::nn::Tanh(); }),
                                         block([] { return torch::nn::Linear(width, width); }), block([] { return torch::nn::Tanh(); })};
  Pipeline net(comm, blocks, {.schedule = schedule});
  torch::optim::SGD sgd(net.parameters(), 0.1);
  torch::manual_seed(2);
  const auto x = torch::randn({60, width});
  const auto y = torch::tanh(x.flip(1));
  double loss = 0;
  for (int step = 0; step < 100; ++step) {
    sgd.zero_grad();
    loss = net.run(x, y, [](const auto& output, const auto& target) { return torch::mse_loss(output, target); });
    sgd.step();
  }
  return loss;
}

}  // namespace

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  const tw::Communicator comm = mpi.world().dup();
  const Schedule own = schedule_from_text(early);
  const Schedule usual = one_forward_one_backward(own.stages, own.micro_batches);
  if (comm.size() != own.stages) {
    if (comm.rank() == 0) std::cout << "this schedule is for " << own.stages << " ranks\n";
    return 1;
  }

  if (comm.rank() == 0) {
    for (const char* text : {incomplete, stuck}) {
      std::cout << "refused:" << text;
      for (const std::string& problem : problems_of(schedule_from_text(text))) std::cout << "  " << problem << '\n';
    }
    const std::vector<PassTimes> times(2, {.forward = 1, .backward = 2, .transfer = 0.5});
    std::cout << "1F1B, forward 1, backward 2, a message 0.5: " << simulate(usual, times).duration << '\n' << gantt_text(simulate(usual, times), 80);
    std::cout << "own: " << simulate(own, times).duration << '\n' << gantt_text(simulate(own, times), 80);
    std::cout << "micro-batches in flight on device 0: " << max_in_flight(usual)[0] << " and " << max_in_flight(own)[0] << '\n';
  }
  const double loss = trained(comm, own);
  const double other = trained(comm, usual);
  if (comm.rank() == 0) {
    std::cout << "problems: own " << problems_of(own).size() << ", incomplete " << problems_of(schedule_from_text(incomplete)).size() << ", stuck "
              << problems_of(schedule_from_text(stuck)).size() << "; loss " << loss << ", with 1F1B " << other
              << (loss == other ? ": the same" : ": not the same") << std::endl;
  }
}
