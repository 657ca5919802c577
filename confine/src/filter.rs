//! Filters of system calls.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// A rule that matches if each of its conditions holds: number of the argument, comparison, value.
pub(crate) fn when<const N: usize>(
    conditions: [(u8, SeccompCmpOp, u64); N],
) -> Result<SeccompRule, seccompiler::Error> {
    let conditions = conditions
        .map(|(argument, operator, value)| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value));
    Ok(SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)?)
}

/// A rule that matches if an argument is no null pointer.
pub(crate) fn when_pointer(argument: u8) -> Result<SeccompRule, seccompiler::Error> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    Ok(SeccompRule::new(vec![condition])?)
}

/// The filter of these rules. A call of another architecture kills the process.
pub(crate) fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, seccompiler::Error> {
    let filter = SeccompFilter::new(rules, otherwise, matched, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}
