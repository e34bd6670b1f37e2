// Which features of the language, the analyses and the targets random programs reach.
#pragma once

#include "tools/fuzz/session.h"

namespace loopgrad::fuzz {

/// Of the program as it is written: types, ranks, roles, facts, statements, operations, indices, shapes, sizes.
std::set<std::string> features_of(const Case& c);

/// A Markdown page about a run: a table of all features with the number of programs that had them.
std::string features_page(const SessionOptions& options, const SessionResult& result);

}  // namespace loopgrad::fuzz
