// SPDX-License-Identifier: Apache-2.0
#include "block_costs.hpp"

#include <algorithm>

namespace tw::pipeline {
namespace {

Affine operator+(Affine a, const Affine& b) { return a += b; }

void raise(Affine& most, const Affine& other) {
  most.fixed = std::max(most.fixed, other.fixed);
  most.per_row = std::max(most.per_row, other.per_row);
}

void add_costs(BlockCosts& costs, const ProfiledOperator& op) {
  costs.forward += op.forward;
  costs.backward += op.backward;
  costs.weights += op.weights;
  costs.waiting += op.waiting_bytes;
  costs.saved += op.saved_bytes;
}

/// Costs of one block, and what it may share with other blocks.
struct BlockOfOperators {
  BlockCosts costs;  // without constants
  std::vector<int> constants;
  std::vector<int> parameters;
};

BlockOfOperators block_of(const OperatorOrder& order, int begin, int end) {
  const std::vector<ProfiledOperator>& operators = order.profile().operators;
  BlockOfOperators block{{}, order.constants_of(begin, end), {}};
  const auto use = [&](int op) {
    const std::vector<int>& of = operators[static_cast<size_t>(op)].parameters;
    block.parameters.insert(block.parameters.end(), of.begin(), of.end());
  };
  for (int p = begin; p < end; ++p) {
    const ProfiledOperator& op = operators[static_cast<size_t>(order.operator_at(p))];
    add_costs(block.costs, op);
    raise(block.costs.peak, block.costs.saved + op.workspace_bytes);
    use(order.operator_at(p));
  }
  for (const int constant : block.constants) use(constant);
  std::sort(block.parameters.begin(), block.parameters.end());
  block.parameters.erase(std::unique(block.parameters.begin(), block.parameters.end()), block.parameters.end());
  return block;
}

/// Sums over the blocks of a growing range, in which each constant and parameter counts once.
class Summation {
 public:
  Summation(const Profile& profile, const std::vector<BlockOfOperators>& blocks)
      : profile_(profile), blocks_(blocks), constant_seen_(profile.operators.size(), -1), parameter_seen_(profile.parameters.size(), -1) {
    first_use_.assign(profile.parameters.size(), -1);
    last_use_ = first_use_;
    for (size_t block = 0; block < blocks.size(); ++block) {
      for (const int parameter : blocks[block].parameters) {
        int& first = first_use_[static_cast<size_t>(parameter)];
        if (first < 0) first = static_cast<int>(block);
        last_use_[static_cast<size_t>(parameter)] = static_cast<int>(block);
      }
    }
  }

  void begin_at(int block) {
    begin_ = block;
    sum_ = {};
    saved_ = constants_saved_ = peak_ = {};
    inside_ = 0;
  }
  const BlockCosts& add(int index, const Affine& border) {
    const BlockOfOperators& block = blocks_[static_cast<size_t>(index)];
    sum_.forward += block.costs.forward;
    sum_.backward += block.costs.backward;
    sum_.weights += block.costs.weights;
    sum_.waiting += block.costs.waiting;
    raise(peak_, saved_ + block.costs.peak);
    saved_ += block.costs.saved;
    sum_.saved += block.costs.saved;
    sum_.kept += border;
    for (const int constant : block.constants) {
      if (!is_new(constant_seen_, constant)) continue;
      const ProfiledOperator& op = profile_.operators[static_cast<size_t>(constant)];
      add_costs(sum_, op);
      constants_saved_ += op.saved_bytes;
      raise(peak_, op.workspace_bytes);
    }
    sum_.peak = constants_saved_ + peak_;
    for (const int parameter : block.parameters) {
      const double bytes = profile_.parameters[static_cast<size_t>(parameter)].bytes;
      if (is_new(parameter_seen_, parameter)) sum_.parameter_bytes += bytes;
      if (last_use_[static_cast<size_t>(parameter)] == index && first_use_[static_cast<size_t>(parameter)] >= begin_) inside_ += bytes;
    }
    sum_.tied_bytes = std::max(sum_.parameter_bytes - inside_, 0.0);
    return sum_;
  }

 private:
  bool is_new(std::vector<int>& seen, int which) const {
    int& last = seen[static_cast<size_t>(which)];
    const bool is_new = last != begin_;
    last = begin_;
    return is_new;
  }

  const Profile& profile_;
  const std::vector<BlockOfOperators>& blocks_;
  std::vector<int> constant_seen_;  // by constant, the begin of the last range that counted it
  std::vector<int> parameter_seen_;
  std::vector<int> first_use_;  // by parameter, its first block
  std::vector<int> last_use_;
  int begin_ = 0;
  BlockCosts sum_;
  Affine saved_;            // saved by operators that see the batch
  Affine constants_saved_;  // saved by constants, whose backward passes come last
  Affine peak_;             // peak without constants
  double inside_ = 0;       // bytes that no other stage has
};

std::vector<SharedParameter> shared_by_blocks(const Profile& profile, const std::vector<BlockOfOperators>& blocks) {
  std::vector<SharedParameter> all;
  for (const ProfiledParameter& parameter : profile.parameters) all.push_back({.bytes = parameter.bytes});
  for (size_t block = 0; block < blocks.size(); ++block) {
    for (const int parameter : blocks[block].parameters) all[static_cast<size_t>(parameter)].blocks.push_back(static_cast<int>(block));
  }
  std::erase_if(all, [](const SharedParameter& each) { return each.blocks.size() < 2; });
  return all;
}

}  // namespace

BlockCostTable::BlockCostTable(const OperatorOrder& order, std::vector<int> begins) : order_(&order), begins_(std::move(begins)) {
  const auto count = static_cast<size_t>(blocks());
  table_.resize(count * count);
  std::vector<BlockOfOperators> each;
  for (int block = 0; block < blocks(); ++block) each.push_back(block_of(order, begin_of(block), begin_of(block + 1)));
  Summation summation(order.profile(), each);
  for (int begin = 0; begin < blocks(); ++begin) {
    summation.begin_at(begin);
    for (int end = begin + 1; end <= blocks(); ++end) table_[index(begin, end)] = summation.add(end - 1, border(end - 1));
  }
  shared_ = shared_by_blocks(order.profile(), each);
}

double BlockCostTable::tied_bytes_with_joined_ends(int begin, int end) const {
  const int length = end - begin;
  const auto is_inside = [&](int block) { return begin <= block && block < end; };
  const auto is_at_an_end = [&](int block) { return block < length || block >= blocks() - length; };
  double bytes = at(begin, end).tied_bytes;
  for (const SharedParameter& each : shared_) {
    const bool is_tied = std::ranges::any_of(each.blocks, is_inside) && !std::ranges::all_of(each.blocks, is_inside);
    if (is_tied && std::ranges::all_of(each.blocks, is_at_an_end)) bytes -= each.bytes;
  }
  return std::max(bytes, 0.0);
}

double BlockCostTable::segments_peak(int begin, int end, double rows) const {
  double most = 0;
  for (int block = begin; block < end; ++block) most = std::max(most, at(begin, block + 1).kept.of(rows) + at(block, block + 1).peak.of(rows));
  return most;
}

std::vector<int> BlockCostTable::operators_of(int begin, int end) const {
  std::vector<int> operators = order_->constants_of(begin_of(begin), begin_of(end));
  for (int p = begin_of(begin); p < begin_of(end); ++p) operators.push_back(order_->operator_at(p));
  std::sort(operators.begin(), operators.end());
  return operators;
}

}  // namespace tw::pipeline
