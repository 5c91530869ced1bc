//! stub
pub(crate) fn html(_r: &super::results::Results) -> String {
    String::new()
}
