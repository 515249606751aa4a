// SPDX-License-Identifier: Apache-2.0
#include "operator_order.hpp"

#include <algorithm>
#include <set>

namespace tw::pipeline {
namespace {

std::vector<int> batch_operators(const Profile& profile) {
  const std::vector<bool> sees = sees_batch(profile);
  std::vector<int> order;
  for (size_t i = 0; i < sees.size(); ++i) {
    if (sees[i]) order.push_back(static_cast<int>(i));
  }
  return order;
}

}  // namespace

std::vector<bool> sees_batch(const Profile& profile) {
  std::vector<bool> sees(profile.operators.size(), false);
  for (size_t i = 0; i < sees.size(); ++i) {
    const std::vector<int>& inputs = profile.operators[i].inputs;
    sees[i] = std::any_of(inputs.begin(), inputs.end(), [&](int input) { return input < 0 || sees[static_cast<size_t>(input)]; });
  }
  return sees;
}

OperatorOrder::OperatorOrder(const Profile& profile) : OperatorOrder(profile, batch_operators(profile)) {}

OperatorOrder::OperatorOrder(const Profile& profile, std::vector<int> order)
    : profile_(&profile), order_(std::move(order)), sees_batch_(sees_batch(profile)) {
  find_borders();
}

void OperatorOrder::find_borders() {
  // A value crosses every border from its producer to its last use; outputs of the model cross up to the last stage.
  std::vector<int> last_use(profile_->operators.size() + 1, -1);  // by operator + 1: index 0 is the model's input
  for (int p = 0; p < size(); ++p) {
    for (const int input : profiled_at(p).inputs) last_use[static_cast<size_t>(input) + 1] = p;
  }
  for (const int output : profile_->outputs) last_use[static_cast<size_t>(output) + 1] = size() - 1;
  borders_.assign(order_.size() + 1, {});
  const auto cross = [&](int from, int last, const Affine& bytes) {
    if (last < 0) return;
    borders_[static_cast<size_t>(from)] += bytes;
    borders_[static_cast<size_t>(last) + 1] -= bytes;
  };
  cross(0, last_use[0], profile_->input_bytes);
  for (int p = 0; p < size(); ++p) cross(p + 1, last_use[static_cast<size_t>(operator_at(p)) + 1], profiled_at(p).output_bytes);
  for (size_t p = 1; p < borders_.size(); ++p) borders_[p] += borders_[p - 1];
  for (Affine& border : borders_) border = {std::max(border.fixed, 0.0), std::max(border.per_row, 0.0)};
  borders_.back() = {};
}

std::vector<int> OperatorOrder::constants_of(int begin, int end) const {
  std::set<int> constants;
  std::vector<int> to_visit;
  const auto visit = [&](int op) {
    for (const int input : profile_->operators[static_cast<size_t>(op)].inputs) {
      if (input >= 0 && !sees_batch_[static_cast<size_t>(input)] && constants.insert(input).second) to_visit.push_back(input);
    }
  };
  for (int p = begin; p < end; ++p) visit(operator_at(p));
  while (!to_visit.empty()) {
    const int op = to_visit.back();
    to_visit.pop_back();
    visit(op);
  }
  return {constants.begin(), constants.end()};
}

}  // namespace tw::pipeline
