// SPDX-License-Identifier: Apache-2.0
// Habits of LibTorch's users around wrapped models: the parameters of one process with all samples, or an immediate error that names the fix.
//
// Tolerance: |ours - reference| <= 1e-12 |reference| in the 2-norm of each parameter, in float64, for at most 8 smooth updates; 1e-5 after a
// conversion to float32.
#include "habits.hpp"

#include <cctype>
#include <fstream>
#include <iterator>

namespace habits_test {

using namespace tw::testing::habits;
using tw::testing::message_of;
using tw::testing::world;
using Kind = Outcome::Kind;

void expect_equals_one_process(const Habit& habit, Loop& ours) {
  PlainLoop plain;
  habit.act(plain);
  auto expected = plain.whole();
  auto found = ours.whole();
  if (found.empty()) expected.clear();  // the root has it
  expected.insert(expected.end(), plain.outputs.begin(), plain.outputs.end());
  found.insert(found.end(), ours.outputs.begin(), ours.outputs.end());
  ASSERT_EQ(found.size(), expected.size());
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double tolerance = expected[i].scalar_type() == torch::kDouble ? 1e-12 : 1e-5;
    EXPECT_LE((found[i] - expected[i]).norm().item<double>(), tolerance * expected[i].norm().item<double>()) << "parameter or output " << i;
  }
}

void expect_outcome(const Habit& habit, const StrategyColumn& strategy, const Outcome& outcome) {
  if (outcome.kind == Kind::absent || world().size() < outcome.min_ranks) return;
  const auto ours = strategy.make();
  if (outcome.kind == Kind::error) {
    const std::string error = message_of([&] { habit.act(*ours); });
    EXPECT_NE(error.find(outcome.text), std::string::npos) << error;
    return;
  }
  habit.act(*ours);
  if (outcome.kind == Kind::right) expect_equals_one_process(habit, *ours);
}

class Habits : public ::testing::TestWithParam<size_t> {};

TEST_P(Habits, AreRightOrSaySoAtOnce) {
  const StrategyColumn& strategy = strategies().at(GetParam());
  for (const Habit& habit : all_habits()) {
    SCOPED_TRACE(habit.name + ", " + strategy.name);
    EXPECT_NO_THROW(expect_outcome(habit, strategy, habit.outcomes.at(GetParam())));
    world().barrier();
  }
}
INSTANTIATE_TEST_SUITE_P(Of, Habits, ::testing::Range<size_t>(0, strategies().size()), [](const auto& of) {
  std::string name = strategies()[of.param].name;
  std::erase_if(name, [](char each) { return std::isalpha(static_cast<unsigned char>(each)) == 0; });
  return name;
});

std::string cell(const Outcome& outcome) {
  switch (outcome.kind) {
    case Kind::right: return "right";
    case Kind::error: return "error: \"" + outcome.text + '"';
    case Kind::other: return outcome.text;
    case Kind::absent: return "(" + outcome.text + ')';
  }
  return "";
}

/// The list as Markdown.
std::string table() {
  std::string head = "| habit |";
  std::string rule = "|---|";
  for (const StrategyColumn& each : strategies()) {
    head += " " + each.name + " |";
    rule += "---|";
  }
  std::string lines = head + '\n' + rule + '\n';
  for (const Habit& habit : all_habits()) {
    lines += "| " + habit.name + " |";
    for (const Outcome& each : habit.outcomes) lines += ' ' + cell(each) + " |";
    lines += '\n';
  }
  return lines;
}

TEST(HabitsPage, ShowsTheList) {
  if (world().rank() != 0) return;
  std::ifstream file(TW_HABITS_PAGE);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t begin = page.find("| habit |");
  const size_t end = page.find("\n\n", begin) + 1;
  ASSERT_TRUE(begin != std::string::npos && end != 0) << TW_HABITS_PAGE << " has no table of habits";
  if (page.substr(begin, end - begin) == table()) return;
  const std::string rewritten = testing::TempDir() + "habits.md";
  std::ofstream(rewritten) << page.substr(0, begin) << table() << page.substr(end);
  ADD_FAILURE() << "the page differs from the list: cp " << rewritten << ' ' << TW_HABITS_PAGE;
}

}  // namespace habits_test
