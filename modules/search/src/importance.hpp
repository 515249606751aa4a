// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/search/ledger.hpp>
#include <vector>

namespace tw::search {

/// The share of the spread of losses that each parameter explains alone: the share of the variance of the losses' ranks that lies between the means
/// of bins of its values, less the part expected by chance (epsilon squared = (between - (bins - 1) within / (n - bins)) / total, at least 0). Each
/// choice, or each of a few whole numbers, is a bin; other values are divided into bins of equal numbers of trials. "Does not exist" is a bin, too.
///
/// Shares need not sum to 1: the joint effect of parameters, and noise, belong to no share; the effect of correlated parameters belongs to the share
/// of each of them.
/// @return by parameter; empty with fewer than 20 trials that count, or if all losses are equal
/// Ref: first-order effects of a functional ANOVA, Hutter, Hoos & Leyton-Brown 2014, estimated from given data as in Plischke, Borgonovo & Smith
/// 2013; epsilon squared, Kelley 1935.
std::vector<double> importance(const Ledger& ledger, const Space& space);

}  // namespace tw::search
