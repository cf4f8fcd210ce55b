//! The protocol between the server and a child that runs a filter: lengths and bytes, over two pipes.

use std::io::{Error, ErrorKind, Read, Result, Write};

use windlass_store::search::Payloads;

/// The longest value that either side sends.
const LONGEST: usize = 2 * 1024 * 1024 * 1024 - 1;

fn write_bytes(out: &mut impl Write, bytes: &[u8]) -> Result<()> {
    let len = u32::try_from(bytes.len()).map_err(|_| Error::from(ErrorKind::InvalidInput))?;
    out.write_all(&len.to_be_bytes())?;
    out.write_all(bytes)
}

fn read_number(from: &mut impl Read) -> Result<usize> {
    let mut number = [0; 4];
    from.read_exact(&mut number)?;
    Ok(u32::from_be_bytes(number) as usize)
}

fn read_bytes(from: &mut impl Read) -> Result<Vec<u8>> {
    let len = read_number(from)?;
    if len > LONGEST {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

pub fn write_filter(out: &mut impl Write, filter: &str) -> Result<()> {
    write_bytes(out, filter.as_bytes())?;
    out.flush()
}

pub fn read_filter(from: &mut impl Read) -> Result<String> {
    String::from_utf8(read_bytes(from)?).map_err(|_| ErrorKind::InvalidData.into())
}

/// The result of checking a filter: what a payload must contain, or what is wrong with the filter.
pub type Checked = std::result::Result<Vec<Vec<u8>>, String>;

pub fn write_checked(out: &mut impl Write, checked: &Checked) -> Result<()> {
    match checked {
        Ok(needles) => {
            out.write_all(&[1])?;
            out.write_all(&(needles.len() as u32).to_be_bytes())?;
            for needle in needles {
                write_bytes(out, needle)?;
            }
        }
        Err(why) => {
            out.write_all(&[0])?;
            write_bytes(out, why.as_bytes())?;
        }
    }
    out.flush()
}

pub fn read_checked(from: &mut impl Read) -> Result<Checked> {
    let mut good = [0];
    from.read_exact(&mut good)?;
    if good == [1] {
        let count = read_number(from)?;
        return (0..count).map(|_| read_bytes(from)).collect::<Result<Vec<_>>>().map(Ok);
    }
    Ok(Err(String::from_utf8_lossy(&read_bytes(from)?).into_owned()))
}

pub fn write_payloads(out: &mut impl Write, payloads: &Payloads) -> Result<()> {
    let (bytes, ends) = payloads.parts();
    let ends: Vec<u8> = ends.iter().flat_map(|end| end.to_be_bytes()).collect();
    write_bytes(out, &ends)?;
    write_bytes(out, bytes)?;
    out.flush()
}

/// The next payloads: where each ends, and their bytes; `None` when the server has closed the pipe.
pub fn read_payloads(from: &mut impl Read) -> Result<Option<(Vec<usize>, Vec<u8>)>> {
    let ends = match read_bytes(from) {
        Ok(ends) => ends,
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    let bytes = read_bytes(from)?;
    let (ends, _) = ends.as_chunks::<4>();
    let ends: Vec<usize> = ends.iter().map(|end| u32::from_be_bytes(*end) as usize).collect();
    let in_order = ends.is_sorted() && ends.last().is_none_or(|last| *last <= bytes.len());
    if in_order { Ok(Some((ends, bytes))) } else { Err(ErrorKind::InvalidData.into()) }
}

pub fn write_passes(out: &mut impl Write, passes: &[bool]) -> Result<()> {
    let bytes: Vec<u8> = passes.iter().map(|passes| u8::from(*passes)).collect();
    out.write_all(&bytes)?;
    out.flush()
}

pub fn read_passes(from: &mut impl Read, count: usize) -> Result<Vec<bool>> {
    let mut bytes = vec![0; count];
    from.read_exact(&mut bytes)?;
    Ok(bytes.into_iter().map(|byte| byte == 1).collect())
}
